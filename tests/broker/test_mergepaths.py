"""A broker serves from one commit log directory what it served from two, after `rmqstore merge-paths`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.toolchain import missing
from tests.broker.whole_start import Asked, require_broker, start
from tests.support import stores
from tests.support.cli import rmqstore

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"whole brokers cannot run here: {missing()}"),
]
BASE = "5.5.1-multipath"


@pytest.mark.exhaustive
def test_every_message_is_served_from_one_directory(tmp_path: Path) -> None:
    case = stores.case(BASE)
    require_broker(case.release)
    before, after = stores.fresh_store(BASE, tmp_path / "before"), stores.fresh_store(BASE, tmp_path / "after")
    rows = [row for row in rmqstore("queues", before, "--json").objects if row["type"] == "queue"]
    asked = Asked(queues=[f"{row['topic']}/{row['queue_id']}" for row in rows], send=True)
    words = ["--into", after / "commitlog", "--yes", "--broker-version", case.release, *case.set_options(after)]

    assert rmqstore("merge-paths", after, *words).status == 0

    first = start(case.release, before, case.settings(before), asked, tmp_path / "first")
    second = start(
        case.release, after, {**case.settings(after), "storePathCommitLog": str(after / "commitlog")}, asked, tmp_path / "second"
    )
    assert second.caught_up and second.new and not second.refused
    places = [
        {queue: {place: line["physicalOffset"] for place, line in messages.items()} for queue, messages in one.queues.items()}
        for one in (first, second)
    ]
    assert places[0] == places[1] and sum(map(len, places[0].values())) > len(rows)
