"""Small stores with known places, injuries to their files, and what verify says about them in short form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rmqstore.findings import Finding
from rmqstore.formats.consumequeue import UNIT, UNIT_SIZE
from rmqstore.formats.naming import offset_to_file_name
from rmqstore.store.root import Store
from rmqstore.verify.engine import verify as verify_store
from tests.support.builder import StoreBuilder

# A record of `filled` stores: 91 fixed bytes, "TopicA", "body", KEYS and TAGS of one or two characters.
SIZE = 116
TAGS_CODE = 84  # Java hash of "T"


def filled(builder: StoreBuilder, count: int, **changes: Any) -> StoreBuilder:
    """`count` more messages of TopicA/0, every record `SIZE` bytes long (for less than ten of them)."""
    for number in range(count):
        builder.message(**{"tags": "T", "keys": f"k{number}"} | changes)
    return builder


def verified(builder: StoreBuilder, settings: Mapping[str, str] | None = None) -> list[Finding]:
    """What verify says about the files as they lie on the disk now."""
    return list(verify_store(Store.open(builder.root, settings={**builder.settings, **(settings or {})})))


def codes(findings: Iterable[Finding]) -> list[str]:
    return sorted(finding.code.removeprefix("RMQ-") for finding in findings)


def place(finding: Finding, *names: str) -> tuple[Any, ...]:
    """Code without prefix, then the values of these fields."""
    return (finding.code.removeprefix("RMQ-"), *(getattr(finding, name) for name in names))


def patch(path: Path, position: int, data: bytes) -> None:
    """Overwrites bytes of a file; its length stays."""
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


def log_name(start: int = 0) -> str:
    return f"commitlog/{offset_to_file_name(start)}"


def queue_name(start: int = 0, topic: str = "TopicA", queue_id: int = 0) -> str:
    return f"consumequeue/{topic}/{queue_id}/{offset_to_file_name(start)}"


def index_files(root: Path) -> list[Path]:
    return sorted((root / "index").iterdir())


def unit(offset: int, size: int = SIZE, tags_code: int = TAGS_CODE) -> bytes:
    return bytes(UNIT.build({"physical_offset": offset, "size": size, "tags_code": tags_code}))


def patch_unit(root: Path, queue_offset: int, data: bytes) -> None:
    """Overwrites bytes from the unit of a queue offset of TopicA/0 on."""
    patch(root / queue_name(), queue_offset * UNIT_SIZE, data)
