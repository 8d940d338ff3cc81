"""A broker serves everything from a log whose damage was taken from another copy."""

from __future__ import annotations

import shutil
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
BASE = "broker-5.5.1-crash"


@pytest.mark.exhaustive
def test_a_log_with_ranges_of_two_copies(tmp_path: Path) -> None:
    """Damage at two places, each whole in one of two copies that are damaged themselves; configuration is gone as well."""
    case = stores.case(BASE)
    require_broker(case.release)
    whole, damaged = stores.fresh_store(BASE, tmp_path / "whole"), stores.fresh_store(BASE, tmp_path / "damaged")
    copies = [tmp_path / "one", tmp_path / "two"]
    for copy in copies:
        shutil.copytree(damaged, copy, symlinks=True)
    log = min((damaged / "commitlog").iterdir())
    places = (log.stat().st_size // 4, log.stat().st_size // 2)
    for root, harmed in ((damaged, places), (copies[0], places[:1]), (copies[1], places[1:])):
        with (root / "commitlog" / log.name).open("r+b") as file:
            for place in harmed:
                file.seek(place)
                file.write(b"\x55" * 3000)
    for ending in ("", ".bak"):
        (damaged / "config" / f"topics.json{ending}").write_bytes(b"")
    words = ["--yes", "--broker-version", case.release, *case.set_options(damaged)]
    rows = [row for row in rmqstore("queues", whole, "--json").objects if row["type"] == "queue"]
    asked = Asked(queues=[f"{row['topic']}/{row['queue_id']}" for row in rows if not row["topic"].startswith(("rmq_sys", "SCHEDULE"))])

    for root in (whole, damaged):
        done = rmqstore("recover", root, *words, *(["--from", copies[0], "--from", copies[1]] if root == damaged else []))
        assert done.status == 0, done.err

    assert (damaged / "commitlog" / log.name).read_bytes() == (whole / "commitlog" / log.name).read_bytes()
    found = [
        start(case.release, root, case.settings(root), asked, tmp_path / f"broker-{root.parent.parent.name}") for root in (whole, damaged)
    ]
    # What falls due after the start is new.
    places_of = [one.below(case.max_phy_offset).units for one in found]
    assert places_of[0] == places_of[1] and sum(map(len, places_of[0].values())) > len(rows)
