"""While the real store code has a store open, every writing command refuses with status 3 and no byte changes."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.broker.toolchain import JarsMissing, java_command, missing
from tests.support import operations, stores
from tests.support.cli import rmqstore
from tests.support.damages import DAMAGES
from tests.support.storeview import StoreView

REFUSED = 3
RELEASES = ("4.9.8", "5.5.1")
COMMANDS = ("recover", "truncate", "rebuild-consumequeue", "rebuild-index", "rebuild-checkpoint")

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"the real store code cannot run here: {missing()}"),
]


def content(root: Path) -> dict[str, str]:
    """SHA-256 of every file, without the one that the store code itself goes on writing."""
    return {path: digest for path, digest in stores.content(root).items() if path != "checkpoint"}


@contextmanager
def held(release: str, root: Path, settings: dict[str, str]) -> Iterator[None]:
    """The store code of the release has the store open. Raises JarsMissing."""
    words = [word for name, value in settings.items() for word in ("--set", f"?{name}={value}")]
    with tempfile.TemporaryDirectory(prefix="rmqstore-java-") as transient:
        yield from _held(java_command(release, Path(transient), "hold", str(root), "--profile", "default", *words))


def _held(command: list[str]) -> Iterator[None]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        assert json.loads(process.stdout.readline()).get("kind") == "held"
        yield
        process.stdin.close()
        process.stdout.read()


@pytest.mark.parametrize("release", RELEASES)
def test_nothing_writes_into_a_store_that_is_open(release: str, tmp_path: Path) -> None:
    name = f"{release}-plain"
    root = stores.fresh_store(name, tmp_path)
    settings = stores.case(name).settings(root)
    options = stores.case(name).set_options(root)
    operations.apply(DAMAGES["index-all-removed"](StoreView(root, settings)), root)
    assert rmqstore("rebuild-index", root, "--yes", *options).status == 0  # a transaction that could be taken back
    plan = tmp_path / "plan.json"
    assert rmqstore("rebuild-index", root, "--all", "--plan-out", plan, *options).status == 0
    runs: dict[str, list[str | Path]] = {command: [command, root, "--yes", *options] for command in COMMANDS}
    runs |= {"undo": ["undo", root, "--yes"], "apply": ["apply", plan, "--yes"]}
    try:
        with held(release, root, settings):
            before = content(root)
            for command, words in runs.items():
                run = rmqstore(*words)
                assert run.status == REFUSED, f"{command}: {run.err}"
                assert "in use" in run.err, command
            assert content(root) == before
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of {release}: {error}")
    assert rmqstore("recover", root, "--yes", *options).status == 0
