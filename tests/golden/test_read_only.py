"""No inspecting command changes a byte, a modification time or a directory listing; all of them work on a store that cannot be written."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden.on_read_only_mount import NOT_PERMITTED
from tests.support.cli import needs_permissions, rmqstore, without_privileges
from tests.support.stores import case, content, fresh_store, snapshot
from tests.support.waiting import PATIENCE

STORES = ["4.9.8-cqext", "5.3.3-plain-crash", "5.3.3-batchcq-crash", "5.5.1-empty", "broker-5.5.1-crash", "broker-5.5.1-rocksdb-clean"]
REPOSITORY = Path(__file__).parents[2]
PARTS = [
    "commitlog",
    "consumequeue",
    "consumequeue_ext",
    "batchconsumequeue",
    "index",
    "checkpoint",
    "abort",
    "timerwheel",
    "timerlog",
    "timercheck",
    "lock",
    "compaction",
    "compaction_log",
    "compaction_queue",
    "json",
]


def commands(root: Path) -> list[list[str]]:
    whole = [["info", str(root)], ["verify", str(root), "--allow-unchecked"], ["doctor", str(root)], ["recover", str(root), "--dry-run"]]
    return [*whole, *(["dump", str(root), "--part", part] for part in PARTS)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", STORES)
def test_nothing_changes(name: str, tmp_path: Path) -> None:
    root = fresh_store(name, tmp_path)
    before = snapshot(root), content(root)

    for command in commands(root):
        run = rmqstore(*command, "--format", "json", *case(name).set_options(root))
        assert run.status in (0, 1, 4), run.err
        assert not run.crashed, run.err

    assert (snapshot(root), content(root)) == before


@pytest.mark.sampled(1)
@needs_permissions
@pytest.mark.parametrize("name", STORES)
def test_a_store_without_write_permission(name: str, tmp_path: Path) -> None:
    """Everything that can be said of a store is said the same without a single write permission in it."""
    root = fresh_store(name, tmp_path)
    for path in [*root.rglob("*"), root]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    for parent in root.parents:
        if tmp_path in (parent, *parent.parents):
            parent.chmod(0o755)
    before = snapshot(root), content(root)

    for command in (["info", str(root)], ["verify", str(root), "--allow-unchecked"], ["dump", str(root), "--part", "commitlog"]):
        run = without_privileges(*command, "--format", "json", *case(name).set_options(root))
        assert run.returncode == 0, run.stderr

    assert (snapshot(root), content(root)) == before


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", STORES)
def test_a_read_only_mount(name: str, tmp_path: Path) -> None:
    """Every command on a real read-only mount says what it says of a store that could be written."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root can mount, with the tool unshare")
    root = fresh_store(name, tmp_path)
    before = snapshot(root), content(root)
    options = ["--format", "json", *case(name).set_options(root)]
    wanted = [[*command, *options] for command in commands(root)] + [["explain", "RMQ-CL-CRC", "--format", "json"]]

    words = ["unshare", "--mount", sys.executable, "-m", "tests.golden.on_read_only_mount", str(root), json.dumps(wanted)]
    finished = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=REPOSITORY)
    if finished.returncode == NOT_PERMITTED or "unshare failed" in finished.stderr:
        pytest.skip("mounting is not permitted here")

    assert finished.returncode == 0, finished.stderr
    for command, status, err, digest in json.loads(finished.stdout):
        outside = rmqstore(*command)
        assert (status, err) == (outside.status, outside.err), command
        if command[0] in ("dump", "explain"):  # the others tell times and processes
            assert digest == hashlib.sha256(outside.out.encode()).hexdigest(), command
    assert (snapshot(root), content(root)) == before
