"""The schemas of the package against what commands print; every other test that prints such an object is held to them, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import stores
from tests.support.cli import rmqstore
from tests.support.jsonobjects import described, misfits

# See below, tests/listing, tests/query, tests/doctor and tests/diff.
ROWS = {"queue", "topic", "group", "timer", "pending", "message", "gate", "unreadable", "fix", "diff", "snapshot"} | {
    *("explanation", "code", "log_line", "message_id", "info", "stats"),
    *("summary of explain", "summary of stats", "transaction of history"),
}
DUMPED = {
    *("unit", "pre_blank", "batch_unit", "end_unit", "ext_unit", "index_header", "index_slot", "index_item", "checkpoint", "timercheck"),
    *(
        "timer_unit",
        "timer_blank",
        "timer_slot",
        "blank",
        "damage",
        "lock",
        "abort",
        "config",
        "rocksdb_entry",
        "text",
        "property",
        "epoch_header",
        "epoch",
    ),
    *("compaction_position", "dledger_entry", "dledger_end", "dledger_index_unit"),
    *("tiered_index_header", "tiered_index_slot", "tiered_index_item"),
}
"""Of single files; every test that dumps something is held to them."""


def test_the_page_describes_every_object_once() -> None:
    assert set(described()) == {"finding", "summary", "doctor", "recovery", "comparison", "plan", "transaction"} | ROWS | DUMPED
    assert all("type" in schema["required"] and set(schema["required"]) <= set(schema["properties"]) for schema in described().values())


def test_an_object_that_does_not_fit_is_found() -> None:
    done = rmqstore("doctor", stores.sample_store("5.3.3-plain"), "--format", "json")
    (last,) = (value for value in done.objects if value["type"] == "doctor")
    assert misfits(last) == []
    assert (misfits({**last, "areas": {}})) == ["doctor: areas is {}"]
    assert (misfits({**last, "schema": True})) == ["doctor: schema is True"]
    assert (misfits({**last, "more": 1})) == ["doctor: docs/json.md has no member more"]
    assert (misfits({name: value for name, value in last.items() if name != "next"})) == ["doctor: next is missing"]
    assert (misfits({"type": "other"})) == ["docs/json.md has no object 'other'"]


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
    assert kinds == set(described()) - ROWS - DUMPED


def test_what_explains_and_counts(tmp_path: Path) -> None:
    log = tmp_path / "store.log"
    log.write_text("2026-01-01 00:00:00 WARN main - found a illegal magic code 0x0\n", encoding="utf-8")
    store = stores.sample_store("5.3.3-plain")
    kinds = set()
    for words in (
        ("explain", "--list"),
        ("explain", "RMQ-CL-CRC"),
        ("explain", "found a illegal magic code"),
        ("explain", "no line of a broker at all"),
        ("explain", "AC11000200002A9F0000000000000369"),
        ("explain", "--log", log, store),
        ("info", store),
        ("stats", store),
        ("predict", store),
        ("history", store),
    ):
        kinds |= {value["type"] for value in rmqstore(*words, "--format", "json").objects}
    assert kinds == {"code", "explanation", "log_line", "message_id", "summary", "info", "stats", "recovery"}
