"""The JSON Schemas of the package (rmqstore/schemas), and whether an object that was printed fits one of them."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


@functools.cache
def described() -> dict[str, dict[str, Any]]:
    """Return the schemas by title."""
    schemas = (json.loads(file.read_text("utf-8")) for file in files("rmqstore").joinpath("schemas").iterdir())
    return {schema["title"]: schema for schema in schemas}


def misfits(value: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with an object that a command printed, one sentence each: against the schema of its `type` that fits best."""
    schemas = [schema for schema in described().values() if schema["properties"]["type"]["const"] == value.get("type")]
    if not schemas:
        return [f"docs/json.md has no object {value.get('type')!r}"]
    return min((list(_misfits(value, schema)) for schema in schemas), key=len)


def _misfits(value: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    members, title = schema["properties"], schema["title"]
    for name in value.keys() - members.keys():
        yield f"{title}: docs/json.md has no member {name}"
    for name in schema["required"]:
        if name not in value:
            yield f"{title}: {name} is missing"
    for name in value.keys() & members.keys():
        if not _holds(members[name], value[name]):
            yield f"{title}: {name} is {value[name]!r}"


def _holds(member: Mapping[str, Any], value: object) -> bool:
    """Return whether a value has one of the types; `True` is no integer."""
    if "const" in member:
        return bool(value == member["const"])
    if "type" not in member:
        return True
    names = [member["type"]] if isinstance(member["type"], str) else member["type"]
    types = tuple(one for name in names for one in _TYPES[name])
    return isinstance(value, types) and (not isinstance(value, bool) or bool in types)
