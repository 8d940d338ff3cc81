"""Values as text of one line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def compact_json(value: Any) -> str:
    """Return one line of JSON, non-ASCII characters unescaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def cell(value: Any) -> str:
    """Return a value as the text of one table or CSV cell; empty for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (Mapping, list, tuple)):
        return compact_json(value)
    return str(value)
