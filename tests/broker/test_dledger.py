"""A member of a DLedger group that was repaired: a whole broker starts as the leader of a group of one and serves what was promised."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.broker.busy import SIZES, BusyBroker
from tests.broker.toolchain import JarsMissing, missing
from tests.broker.whole_start import Asked, WholeStart, require_broker, start
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
    require_broker(RELEASE)
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


@pytest.mark.limited(1)
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


@pytest.mark.limited(1)
@pytest.mark.sampled(0)  # whole brokers run for a minute
@pytest.mark.parametrize("release", ["4.9.7", "5.5.1"])
def test_a_member_that_was_killed(release: str, tmp_path: Path) -> None:
    """Nothing is wrong with its store, and after a recovery that loses nothing every message that was acknowledged is served."""
    settings = {**SIZES, "enableDLegerCommitLog": "true"}
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    root = tmp_path / "store"
    root.mkdir()
    try:
        with BusyBroker(release, root, tmp_path / "busy", rate=800, seed=3, settings=settings) as broker:
            broker.wait_for(bytes_of_log=3 << 20)
            stored = broker.acknowledged()
            broker.kill()
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of a broker {release}: {error}")
    found = rmqstore("verify", root, "--json", *options).objects
    assert [one for one in found if one.get("severity") == "error"] == []

    done = rmqstore("recover", root, "--yes", "--json", "--broker-version", release, *options)

    assert (done.status, done.objects[0]["lost"]) == (0, [])
    plain = {(one["topic"], one["queue"], one["queueOffset"]) for one in stored if one["topic"] != "delayed"}
    queues = sorted({f"{topic}/{queue}" for topic, queue, _ in plain})
    started = start(release, root, settings, Asked(queues=queues, send=True), tmp_path / "again")
    assert started.new and not started.refused
    assert plain <= {(topic, queue, place) for (topic, queue), messages in started.queues.items() for place in messages}
