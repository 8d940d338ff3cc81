"""Values as text of one line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def compact_json(value: Any) -> str:
    """One line of JSON, non-ASCII characters as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def cell(value: Any) -> str:
    """A value as the text of one table or CSV cell; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (Mapping, list, tuple)):
        return compact_json(value)
    return str(value)
