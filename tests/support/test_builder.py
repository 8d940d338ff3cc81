"""The store builder writes the bytes of a real broker: sample stores are rebuilt from their decoded contents and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmqstore.formats import record
from tests.support.builder import StoreBuilder
from tests.support.stores import Case, case, content, sample_store

DERIVED = ("total_size", "physical_offset", "body_length", "topic_length", "properties_length")
REBUILT = [
    "4.9.8-plain",
    "4.9.8-transactions",
    "4.9.8-ipv6",
    "5.1.4-plain",
    "5.1.4-longtopic",
    "5.2.0-lmq",
    "5.3.3-plain",
    "5.3.3-schedule",
    "5.4.0-plain",
    "5.5.1-plain",
    "5.5.1-lmq",
]


def decoded_fields(log_file: Path) -> list[dict[str, Any]]:
    """The fields of every record of a commit log file, without those that a builder derives."""
    buffer = log_file.read_bytes()
    position, found = 0, []
    while int.from_bytes(buffer[position + 4 : position + 8], "big") in (record.MESSAGE_MAGIC_V1, record.MESSAGE_MAGIC_V2):
        parsed = record.MESSAGE.parse(buffer[position:])
        found.append({name: value for name, value in parsed.items() if name not in DERIVED and not name.startswith("_")})
        position += parsed.total_size
    return found


def rebuild(sample: Case, root: Path, target: Path) -> StoreBuilder:
    settings = sample.settings(root)
    builder = StoreBuilder(
        target,
        log_file_size=int(settings["mappedFileSizeCommitLog"]),
        queue_file_size=int(settings["mappedFileSizeConsumeQueue"]),
        slots=int(settings["maxHashSlotNum"]),
        items=int(settings["maxIndexNum"]),
        index_tags=sample.family in ("5.4.0", "5.5.x"),
    )
    for path in sorted((root / "commitlog").iterdir()):
        for fields in decoded_fields(path):
            builder.put(fields)
    return builder


@pytest.mark.parametrize("name", REBUILT)
def test_a_store_of_a_real_broker_is_rebuilt_byte_for_byte(name: str, tmp_path: Path) -> None:
    root = sample_store(name)
    files = rebuild(case(name), root, tmp_path / "store").contents()
    real = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for part in ("commitlog", "consumequeue", "index")
        for path in (root / part).rglob("*")
        if path.is_file()
    }

    for part in ("commitlog", "consumequeue"):
        assert _part(files, part) == _part(real, part)
    # index files are named by the clock of their creation, so they are compared in their order
    assert list(_part(files, "index").values()) == list(_part(real, "index").values())


def _part(files: dict[str, bytes], part: str) -> dict[str, bytes]:
    return {path: data for path, data in sorted(files.items()) if path.startswith(f"{part}/")}


def test_a_built_store_has_the_files_of_a_stopped_broker(tmp_path: Path) -> None:
    root = StoreBuilder(tmp_path / "store").message(tags="TagA", keys="k").build()

    assert sorted(content(root)) == [
        "checkpoint",
        "commitlog/00000000000000000000",
        "consumequeue/TopicA/0/00000000000000000000",
        "index/20231114221320001",
        "lock",
    ]


def test_a_queue_that_starts_later_has_pre_blanks(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, queue_file_size=100).message(queue_offset=7)

    (start,) = builder.queues["TopicA", 0].files
    assert start == 100
    assert builder.queues["TopicA", 0].files[start][:40].hex() == 2 * "00000000000000007fffffff0000000000000000"


def test_a_record_that_leaves_no_room_for_a_blank_goes_to_the_next_file(tmp_path: Path) -> None:
    size = 91 + len("TopicA")
    fitting = StoreBuilder(tmp_path, log_file_size=2 * size + 8).message(body=b"").message(body=b"")
    tight = StoreBuilder(tmp_path, log_file_size=2 * size + 7).message(body=b"").message(body=b"")

    assert list(fitting.log) == [0]
    assert list(tight.log) == [0, 2 * size + 7]
    assert tight.log[0][size : size + 8].hex() == f"{size + 7:08x}cbd43194"
