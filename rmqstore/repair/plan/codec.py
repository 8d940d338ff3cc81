"""Plan files: one JSON object, and next to it the directory with the contents that are too long for it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rmqstore.errors import RefusedError
from rmqstore.repair.files import beneath
from rmqstore.repair.plan.jsonvalues import from_json, to_json
from rmqstore.repair.plan.model import Plan
from rmqstore.store.window import read_descriptor

_FORMAT = 1
_LARGEST_PLAN = 1 << 30
_ID_LENGTH = 16


def plan_id(plan: Plan) -> str:
    """Return the name of a plan: a digest of all its fields."""
    return _id(to_json(plan))


def plan_object(plan: Plan) -> dict[str, Any]:
    """Return the plan as the object of a plan file, every part of it."""
    said = to_json(plan)
    return {"type": "plan", "format": _FORMAT, "id": _id(said), **said}


def shown_object(plan: Plan) -> dict[str, Any]:
    """Return the plan as commands print it: empty lists are included, the files of the store are left out."""
    shown = {"type": "plan", "actions": [], "lost": [], "configuration": [], "notes": [], "taken": [], **plan_object(plan)}
    shown.pop("files", None)
    return shown


def encode(plan: Plan) -> bytes:
    """Return the bytes of a plan file, with a line for each action, lost message and file of the store."""
    members = (f"{json.dumps(name)}: {_lines(value)}" for name, value in plan_object(plan).items())
    return f"{{\n{_joined(members)}\n}}\n".encode("ascii")


def decode(data: bytes, source: Path) -> Plan:
    """Return the plan that a file holds. Raises RefusedError for anything that is not exactly a plan."""
    try:
        value = json.loads(data)
        if not isinstance(value, dict) or value.pop("type", None) != "plan":
            raise ValueError("it is not an object of type plan")
        if value.pop("format", None) != _FORMAT:
            raise ValueError("its format is not known to this release")
        name = value.pop("id", None)
        plan = from_json(Plan, value)
        if name != _id(value):
            raise ValueError("it was changed after it was written")
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"{source} is not a plan that can be applied: {error}.", "Make a new plan with --plan-out.") from error
    return plan


def read_plan(path: Path) -> Plan:
    """Return the plan in a file. Raises UnreadableError, RefusedError."""
    with beneath.reading(path) as descriptor:
        return decode(read_descriptor(descriptor, path, 0, min(os.fstat(descriptor).st_size, _LARGEST_PLAN)), path)


def contents_directory(path: Path) -> Path:
    """Return the directory with the contents of the plan file `path`."""
    return path.with_name(path.name + ".contents")


def _lines(value: Any) -> str:
    if isinstance(value, list) and value:
        return f"[\n{_joined(map(json.dumps, value))}\n]"
    if isinstance(value, dict) and value:
        return f"{{\n{_joined(f'{json.dumps(name)}: {json.dumps(item)}' for name, item in value.items())}\n}}"
    return json.dumps(value)


def _joined(parts: Iterable[str]) -> str:
    return ",\n".join(parts)


def _id(said: Any) -> str:
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:_ID_LENGTH]
