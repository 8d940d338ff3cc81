"""Values as text of one line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


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
