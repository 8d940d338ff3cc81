"""A member of a DLedger group that was repaired: a whole broker starts as the leader of a group of one and serves what was promised."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.broker.toolchain import WHOLE, JarsMissing, missing, prepared
from tests.broker.whole_start import Asked, WholeStart, start
from tests.repair.test_dledger import DATA, NAME, OF_OTHERS, PROVEN, entries
from tests.support import stores
from tests.support.cli import rmqstore

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"whole brokers cannot run here: {missing()}"),
]
RELEASE = "5.3.3"
QUEUES = ["orders/0", "orders/1", "orders/2", "orders/3", "sql/0", "one/0"]

Served = Mapping[str, list[tuple[int, int]]]


def served(root: Path, scratch: Path) -> Served:
    """Places and physical offsets of the messages of each queue that clients get."""
    try:
        prepared(RELEASE, WHOLE)
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of a broker {RELEASE}: {error}")
    one: WholeStart = start(RELEASE, root, stores.case(NAME).settings(root), Asked(queues=QUEUES, send=True), scratch)
    assert one.caught_up and not one.refused and not one.abort_left and one.new
    return {
        f"{topic}/{queue}": [(place, message["physicalOffset"]) for place, message in messages.items()]
        for (topic, queue), messages in one.queues.items()
    }


@pytest.fixture(scope="module")
def undamaged(tmp_path_factory: pytest.TempPathFactory) -> Served:
    scratch = tmp_path_factory.mktemp("undamaged")
    return served(stores.fresh_store(NAME, scratch), scratch / "broker")


def repair(root: Path, command: str, *options: str | Path) -> int:
    return rmqstore(command, root, "--yes", "--broker-version", RELEASE, *stores.case(NAME).set_options(root), *options).status


@pytest.mark.sampled(0)  # a whole broker runs for half a minute
@pytest.mark.parametrize("damage", ["three headers in a row", "the index is gone", "noise in place of the end mark", "units are noise"])
def test_a_member_serves_everything_after_a_repair(damage: str, undamaged: Served, tmp_path: Path) -> None:
    root = stores.fresh_store(NAME, tmp_path)
    PROVEN[damage](root)
    assert repair(root, "recover") == 0
    assert served(root, tmp_path / "broker") == undamaged


@pytest.mark.sampled(0)
def test_a_member_serves_what_another_one_gave(undamaged: Served, tmp_path: Path) -> None:
    root = stores.fresh_store(NAME, tmp_path)
    shutil.copytree(root, tmp_path / "other")
    OF_OTHERS["some entries"](root)
    assert repair(root, "recover", "--from", tmp_path / "other") == 0
    assert served(root, tmp_path / "broker") == undamaged


@pytest.mark.sampled(0)
def test_a_member_serves_what_a_cut_left(undamaged: Served, tmp_path: Path) -> None:
    root = stores.fresh_store(NAME, tmp_path)
    end, _ = entries(root, DATA)[300]
    OF_OTHERS["some entries"](root)
    assert repair(root, "truncate") == 0
    left = {queue: [message for message in messages if message[1] < end] for queue, messages in undamaged.items()}
    assert served(root, tmp_path / "broker") == left != undamaged
