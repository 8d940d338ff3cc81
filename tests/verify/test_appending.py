"""A store that is written to while it is verified: nothing that the writer explains is a finding, and a real damage is found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rmqstore.store.liveness import Liveness
from rmqstore.store.root import Store
from rmqstore.verify import horizon
from rmqstore.verify.engine import Verification
from tests.support.stores import fresh_store
from tests.verify.appending import run_all


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("rate", "runs"), [(20, 10), (500, 30), (0, 20)])
def test_no_finding_that_a_writer_explains(tmp_path: Path, rate: int, runs: int) -> None:
    told = run_all(tmp_path, runs, rate, seed=rate + 7)

    assert told.runs == runs
    assert told.wrong == []


def test_a_writer_that_stops_between_two_steps(tmp_path: Path) -> None:
    """A writer that got no processor for longer than both looks took: the backup is empty in both, and not changed meanwhile."""
    root = fresh_store("5.3.3-plain", tmp_path)
    backup = root / "config" / "topics.json.bak"
    backup.parent.mkdir()
    backup.write_bytes(b"")
    mark = horizon.mark_of(Store.open(root))
    end = Store.open(root).commitlog.max_offset
    [found] = [one for one in Verification(Store.open(root)).run() if one.code == "RMQ-CF-BAK"]

    assert horizon.Horizon(end, mark, mark).explains(found)
    long_ago = backup.stat().st_mtime - 60
    os.utime(backup, (long_ago, long_ago))
    mark = horizon.mark_of(Store.open(root))
    assert not horizon.Horizon(end, mark, mark).explains(found)


def test_no_error_where_the_writer_cannot_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container: no process and no lock, nothing but bytes that change; without a change the next file is a note after a crash."""
    monkeypatch.setattr(horizon, "liveness", lambda store: Liveness(None, (), None, abort_pid_alive=False, complete=False))

    assert run_all(tmp_path, 20, 50, seed=3, notes=True).wrong == []


@pytest.mark.parametrize("replaced", [False, True])
def test_a_backup_that_is_replaced_meanwhile_is_no_finding(tmp_path: Path, replaced: bool) -> None:
    """The writer empties the backup before it writes it, and each look may see that."""
    root = fresh_store("5.3.3-plain", tmp_path)
    backup = root / "config" / "topics.json.bak"
    backup.parent.mkdir()
    backup.write_bytes(b"")

    def advance(count: int) -> None:
        if replaced:
            status = backup.stat()
            os.utime(backup, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000))

    found = {finding.code for finding in Verification(Store.open(root)).run(advance)}

    assert ("RMQ-CF-BAK" in found) is not replaced
