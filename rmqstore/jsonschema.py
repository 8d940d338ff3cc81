"""The version of the JSON Schemas in rmqstore/schemas, which every object that a command prints has as `schema`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SCHEMA = 1
"""It increases when a member of an object changes its meaning or is removed."""


def with_schema(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object with the member `schema` after its `type`; itself if it has one, or has no type."""
    return value if "schema" in value or "type" not in value else {"type": value["type"], "schema": SCHEMA, **value}
