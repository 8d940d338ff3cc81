"""Values as text of one line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rmqstore.findings import Finding


def compact_json(value: Any) -> str:
    """Return one line of JSON, non-ASCII characters unescaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def labelled(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object of the program as text shows it: members and columns with blanks in their names, without `type` and `schema`."""
    return {name.replace("_", " "): _labelled_item(item) for name, item in value.items() if name not in ("type", "schema")}


def _labelled_item(item: Any) -> Any:
    if isinstance(item, Mapping):
        return labelled(item)
    if isinstance(item, (list, tuple)) and item and isinstance(item[0], Mapping):
        return [{name.replace("_", " "): value for name, value in row.items()} for row in item]
    return item


def cell(value: Any) -> str:
    """Return a value as the text of one table or CSV cell; empty for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (Mapping, list, tuple)):
        return compact_json(value)
    return str(value)


def is_nested(value: Any) -> bool:
    """Return whether a value is a mapping or a list of mappings, and not empty."""
    return bool(value) and (isinstance(value, Mapping) or (isinstance(value, (list, tuple)) and isinstance(value[0], Mapping)))


def listed(value: Any) -> str:
    """Return a value as text, the items of a list separated by commas."""
    if isinstance(value, (list, tuple, Mapping)):
        return ", ".join(map(cell, value)) or "none"
    return cell(value)


def label(name: str) -> str:
    """Return the name of a member as text shows it."""
    return name.replace("_", " ")


def place_of(finding: Finding) -> str:
    """Return the place of a finding: store, file with bytes, queue, physical offset."""
    return "  ".join(_place_parts(finding))


def _place_parts(finding: Finding) -> Iterator[str]:
    if finding.store is not None:
        yield finding.store
    if finding.file is not None:
        position = "" if finding.position is None else f" @ {finding.position}"
        length = "" if finding.length is None else f" +{finding.length}"
        yield finding.file + position + length
    if finding.topic is not None:
        queue = "" if finding.queue_id is None else f"/{finding.queue_id}"
        entry = "" if finding.queue_offset is None else f" #{finding.queue_offset}"
        yield finding.topic + queue + entry
    if finding.offset is not None and finding.offset != finding.position:
        yield f"physical offset {finding.offset}"
