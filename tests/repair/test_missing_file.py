"""A file of the log that is gone, and of which nothing else knows: its range is lost, and the plan lists it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.builder import StoreBuilder
from tests.support.cli import rmqstore
from tests.support.operations import Special

FILE = 4096


@pytest.mark.parametrize("kind", [None, "self-link", "fifo", "zeros"])
def test_a_file_in_the_middle_that_nothing_knows_is_lost(kind: str | None, tmp_path: Path) -> None:
    """Each file has the messages of a topic of its own, so no queue of the other files leaves out a queue offset."""
    builder = StoreBuilder(tmp_path / "store", log_file_size=FILE)
    for topic in ("First", "Second", "Third"):
        for _ in range(3):
            builder.message(topic, bytes(1200))
    root = builder.build()
    path = f"commitlog/{FILE:020d}"
    for part in ("consumequeue", "index"):
        shutil.rmtree(root / part)
    if kind is None:
        (root / path).unlink()
    elif kind == "zeros":
        (root / path).write_bytes(bytes(FILE))
    else:
        Special(path, kind).apply(root)
    plan = _plan(root, builder)

    assert [(one["physical_offset"], one["size"]) for one in plan["lost"]] == [(FILE, FILE)]


@pytest.mark.parametrize("kind", [None, "self-link"])
def test_a_last_file_that_nothing_knows_may_be_lost(kind: str | None, tmp_path: Path) -> None:
    """The file before it is full, and a file that was created in advance follows."""
    builder = StoreBuilder(tmp_path / "store", log_file_size=FILE)
    for topic in ("First", "Second"):
        for _ in range(3):
            builder.message(topic, bytes(1200))
    root = builder.build()
    for part in ("consumequeue", "index"):
        shutil.rmtree(root / part)
    (root / f"commitlog/{2 * FILE:020d}").write_bytes(bytes(FILE))
    path = root / f"commitlog/{FILE:020d}"
    path.unlink()
    if kind is not None:
        Special(f"commitlog/{path.name}", kind).apply(root)

    plan = _plan(root, builder)

    assert [(one["physical_offset"], one["size"], one["doubt"]) for one in plan["lost"]] == [(FILE, FILE, "existence")]


def _plan(root: Path, builder: StoreBuilder) -> dict[str, Any]:
    settings = [word for key, value in builder.settings.items() for word in ("--set", f"{key}={value}")]

    done = rmqstore("recover", root, "--yes", "--format", "json", "--broker-version", "5.3.3", *settings)

    (plan,) = (one for one in done.objects if one["type"] == "plan")
    assert done.status == 0, done.err
    found: dict[str, Any] = plan
    return found
