"""The start of a member of a DLedger group is predicted as whole brokers made it; the same brokers run in tests/broker/test_member.py."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.prediction.simulation import simulate
from rmqstore.store.root import Store
from tests.support import stores
from tests.support.cli import rmqstore

NAME = "broker-5.3.3-dledger-clean"
QUEUES = ("orders/0", "sql/0", "one/0")
Ends = dict[str, tuple[int, int]]
"""First queue offset, and the one after the last, by queue; queues without messages are left out."""

ALL: Ends = {"one/0": (0, 520), "orders/0": (0, 63), "sql/0": (0, 20)}
SHORT: Ends = {"one/0": (0, 520), "orders/0": (0, 57), "sql/0": (0, 20)}
LAST_FILE: Ends = {"one/0": (191, 520), "sql/0": (0, 20)}


def _killed(root: Path) -> None:
    (root / "abort").touch()


def _short_queues(root: Path) -> None:
    for path in (root / "consumequeue" / "orders").glob("*/0*"):
        data = path.read_bytes()
        end = len(data.rstrip(b"\0")) // 20 * 20 - 100
        path.write_bytes(data[:end] + bytes(len(data) - end))


def _no_queues(root: Path) -> None:
    shutil.rmtree(root / "consumequeue")


def _older_commit(root: Path) -> None:
    (root / "dledger-n0" / "checkpoint").write_text("committedIndex=800\nendIndex=1532\n")


def _no_commit(root: Path) -> None:
    for path in (root / "dledger-n0").glob("checkpoint*"):
        path.unlink()


def _no_checkpoint(root: Path) -> None:
    (root / "checkpoint").unlink()


CHANGES: dict[str, Callable[[Path], object]] = {
    "killed": _killed,
    "short queues": _short_queues,
    "no queues": _no_queues,
    "older commit": _older_commit,
    "no commit": _no_commit,
    "no checkpoint": _no_checkpoint,
}

SERVED: dict[tuple[str, tuple[str, ...]], Ends] = {
    ("4.9.7", ()): ALL,
    ("4.9.7", ("killed",)): ALL,
    ("4.9.7", ("short queues",)): SHORT,
    ("4.9.7", ("short queues", "killed")): SHORT,
    ("5.3.3", ()): ALL,
    ("5.3.3", ("killed",)): ALL,
    ("5.3.3", ("short queues",)): SHORT,
    ("5.3.3", ("short queues", "killed")): SHORT,
    ("5.3.3", ("no queues",)): {},
    ("5.3.3", ("no queues", "killed")): LAST_FILE,
    ("5.3.3", ("no queues", "killed", "no checkpoint")): ALL,
    ("5.3.3", ("no queues", "older commit")): {"sql/0": (0, 20)},
    ("5.3.3", ("no queues", "no commit")): ALL,
    ("5.3.3", ("no queues", "older commit", "killed")): LAST_FILE,
    ("5.5.1", ()): ALL,
    ("5.5.1", ("killed",)): ALL,
    ("5.5.1", ("short queues",)): SHORT,
    ("5.5.1", ("short queues", "killed")): SHORT,
    ("5.5.1", ("no queues",)): {},
    ("5.5.1", ("no queues", "killed")): LAST_FILE,
    ("5.5.1", ("no queues", "killed", "no checkpoint")): ALL,
    ("5.5.1", ("no queues", "older commit")): {"sql/0": (0, 20)},
    ("5.5.1", ("no queues", "no commit")): ALL,
    ("5.5.1", ("no queues", "older commit", "killed")): LAST_FILE,
}
"""What clients got from whole brokers."""


def changed(directory: Path, changes: tuple[str, ...]) -> Path:
    root = stores.fresh_store(NAME, directory)
    for name in changes:
        CHANGES[name](root)
    return root


def predicted(root: Path, release: str) -> Ends:
    outcome = simulate(Store.open(root, settings=stores.case(NAME).settings(root)), release)
    assert (outcome.starts, outcome.unknown, outcome.blockers) == (True, None, ())
    assert outcome.after_start is not None and outcome.after_start.queues is not None
    queues = outcome.after_start.queues
    return {name: (queues[name].min_offset, queues[name].max_offset) for name in QUEUES if name in queues}


@pytest.mark.parametrize(("release", "changes"), SERVED)
def test_what_a_member_serves_after_its_start(release: str, changes: tuple[str, ...], tmp_path: Path) -> None:
    assert predicted(changed(tmp_path, changes), release) == SERVED[release, changes]


def doctor(root: Path, release: str) -> tuple[int, str]:
    run = rmqstore("doctor", root, *stores.case(NAME).set_options(root), "--broker-version", release)
    assert not run.crashed, run.err
    return run.status, run.out.splitlines()[0]


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ((), "STARTS, NOTHING LOST"),
        (("short queues",), "STARTS, BUT 24 messages of 4 queues become invisible"),
        (("no queues",), "STARTS, BUT 1517 messages of 61 queues become invisible"),
        (("no queues", "killed"), "STARTS, BUT 459 messages of 7 queues become invisible"),
    ],
)
def test_the_verdict_on_a_member(changes: tuple[str, ...], verdict: str, tmp_path: Path) -> None:
    status, first = doctor(changed(tmp_path, changes), "5.3.3")
    assert first.startswith(verdict)
    assert status == int(bool(changes))


def test_what_a_member_drops_is_up_to_the_group(tmp_path: Path) -> None:
    root = changed(tmp_path, ())
    path = root / "dledger-n0" / "data" / "00000000000001048576"
    data = bytearray(path.read_bytes())
    data[15] ^= 1  # the number of the first entry
    path.write_bytes(data)
    outcome = simulate(Store.open(root, settings=stores.case(NAME).settings(root)), "5.3.3")
    assert outcome.starts is None
    assert outcome.unknown is not None and "drops 1074 messages" in outcome.unknown


def test_a_damaged_body_is_no_loss_of_the_start_but_named(tmp_path: Path) -> None:
    root = changed(tmp_path, ())
    path = root / "dledger-n0" / "data" / "00000000000001048576"
    data = bytearray(path.read_bytes())
    data[48 + 88 + 3] ^= 1
    path.write_bytes(data)
    run = rmqstore("doctor", root, *stores.case(NAME).set_options(root), "--broker-version", "5.3.3")
    assert run.status == 1 and "RMQ-CL-CRC" in run.out
    assert "NOTHING LOST" not in run.out.splitlines()[0]


def test_a_log_beside_that_of_the_group_is_not_predicted(tmp_path: Path) -> None:
    root = changed(tmp_path, ())
    (root / "commitlog").mkdir(exist_ok=True)
    (root / "commitlog" / "00000000000000000000").write_bytes(bytes(1 << 20))
    outcome = simulate(Store.open(root, settings=stores.case(NAME).settings(root)), "5.3.3")
    assert outcome.starts is None and outcome.unknown == "there is a commit log beside that of a DLedger group"
