"""docs/json.md against what commands print; every other test that prints such an object is held to it, too (tests/support/cli.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import stores
from tests.support.cli import rmqstore
from tests.support.jsonobjects import described, misfits

# See tests/listing, tests/query, tests/doctor and tests/diff.
ROWS = {"queue", "topic", "group", "timer", "pending", "message", "gate", "unreadable", "fix", "diff", "snapshot"}


def test_the_page_describes_every_object_once() -> None:
    assert set(described()) == {"finding", "summary", "doctor", "recovery", "comparison", "plan", "transaction"} | ROWS
    assert all("type" in members for members in described().values())


def test_an_object_that_does_not_fit_is_found() -> None:
    done = rmqstore("doctor", stores.sample_store("5.3.3-plain"), "--format", "json")
    (last,) = (value for value in done.objects if value["type"] == "doctor")
    assert list(misfits(last)) == []
    assert list(misfits({**last, "areas": {}})) == ["doctor: areas is {}"]
    assert list(misfits({**last, "schema": True})) == ["doctor: schema is True"]
    assert list(misfits({**last, "more": 1})) == ["doctor: docs/json.md has no member more"]
    assert list(misfits({name: value for name, value in last.items() if name != "next"})) == ["doctor: next is missing"]
    assert list(misfits({"type": "other"})) == ["docs/json.md has no object 'other'"]


@pytest.mark.parametrize("base", ["5.3.3-plain-crash", "4.9.8-plain", "5.5.1-rocksdb"])
def test_what_commands_print(base: str, tmp_path: Path) -> None:
    root = stores.fresh_store(base, tmp_path)
    log = min((root / "commitlog").iterdir())
    with log.open("r+b") as stream:
        stream.seek(4000)
        stream.write(bytes(64))
    kinds = set()
    for words in (
        ["doctor"],
        ["verify"],
        ["recover", "--dry-run"],
        ["recover", "--dry-run", "--what-if", "abort=present,absent"],
        ["recover", "--dry-run", "--strategy", "salvage"],
        ["recover", "--yes"],
        ["undo", "--yes"],
    ):
        done = rmqstore(words[0], root, *words[1:], "--format", "json")
        assert done.status in (0, 1), done.err
        kinds |= {value["type"] for value in done.objects}
    assert kinds == set(described()) - ROWS
