"""Whole brokers start as members of a DLedger group of one: clients get what the prediction says, and everything after a repair."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.toolchain import missing
from tests.broker.whole_start import Asked, require_broker, start
from tests.prediction.test_member import ALL, NAME, QUEUES, SERVED, Ends, changed, predicted
from tests.support import stores
from tests.support.cli import rmqstore

pytestmark = [
    pytest.mark.broker,
    pytest.mark.exhaustive,
    pytest.mark.skipif(missing() is not None, reason=f"whole brokers cannot run here: {missing()}"),
]
THOROUGH = [pytest.param(*case, marks=pytest.mark.thorough) for case in SERVED if case != ("5.5.1", ("no queues", "killed"))]
CASES = [("5.5.1", ("no queues", "killed")), *THOROUGH]


def served(release: str, root: Path, scratch: Path) -> Ends:
    require_broker(release)
    one = start(release, root, stores.case(NAME).settings(root), Asked(queues=list(QUEUES), send=False), scratch)
    assert one.caught_up
    return {f"{topic}/{queue}": (min(found), max(found) + 1) for (topic, queue), found in one.queues.items() if found}


@pytest.mark.parametrize(("release", "changes"), CASES)
def test_a_start_is_predicted(release: str, changes: tuple[str, ...], tmp_path: Path) -> None:
    root = changed(tmp_path, changes)
    expected = predicted(root, release)
    assert served(release, root, tmp_path / "broker") == expected == SERVED[release, changes]


def test_a_repair_gives_everything(tmp_path: Path) -> None:
    root = changed(tmp_path, ("no queues", "killed"))
    run = rmqstore("recover", root, "--yes", "--broker-version", "5.5.1", *stores.case(NAME).set_options(root))
    assert run.status == 0, run.err
    assert predicted(root, "5.5.1") == ALL
    assert served("5.5.1", root, tmp_path / "broker") == ALL
