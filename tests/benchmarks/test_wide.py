"""Stores with many queues, files, groups and light queues: every command works on them, with few open files and in linear time."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.wide import WideShape, WideStore, make_wide_store
from tests.support.cli import rmqstore
from tests.support.stores import content

QUEUES = 160
DESCRIPTORS = 96
"""Far fewer than queues: the program, its libraries and its buffers need some forty."""


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> WideStore:
    shape = WideShape(topics=QUEUES // 8, messages=3, log_files=20, queue_files=2, light=160, groups=3)
    return make_wide_store(tmp_path_factory.mktemp("wide") / "store", shape)


def limited(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))

    command = [sys.executable, "-P", "-m", "rmqstore", *map(str, arguments)]
    return subprocess.run(command, preexec_fn=few, capture_output=True, text=True, check=False)


def test_a_wide_store_is_healthy(wide: WideStore) -> None:
    run = rmqstore("verify", wide.root, "--format", "json", "--quiet", *wide.settings)
    assert run.status == 0
    summary = run.objects[-1]
    assert summary["verdict"] == "HEALTHY"
    assert summary["records"] == wide.shape.records


@pytest.mark.parametrize("command", [["doctor"], ["stats"], ["recover", "--dry-run"]], ids=lambda one: one[0])
def test_few_open_files_are_enough_to_read(wide: WideStore, command: list[str]) -> None:
    done = limited(command[0], wide.root, *command[1:], *wide.settings)
    assert (done.returncode, done.stderr) == (0, "")


def test_few_open_files_are_enough_to_rebuild_all_queues(wide: WideStore, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(wide.root, root)
    shutil.rmtree(root / "consumequeue")
    done = limited("rebuild-consumequeue", root, "--yes", "--quiet", *wide.settings)
    assert (done.returncode, done.stderr) == (0, "")
    assert content(root / "consumequeue") == content(wide.root / "consumequeue")
