"""The objects that docs/json.md describes: members and types as its tables have them, and whether an object that was printed fits."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "json.md"
_ROW = re.compile(r"\| `(\w+)` \| ([^|]+) \|")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "list": (list,),
    "object": (dict,),
    "null": (type(None),),
    "any": (object,),
}


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object: the types it may have."""

    types: tuple[type, ...]
    optional: bool

    def holds(self, value: object) -> bool:
        """Return whether a value has one of the types; `True` is no integer."""
        return isinstance(value, self.types) and (not isinstance(value, bool) or bool in self.types or object in self.types)


@functools.cache
def described() -> dict[str, dict[str, Member]]:
    """Return the members of each object of the page by name, by its `type`."""
    found: dict[str, dict[str, Member]] = {}
    for section in PAGE.read_text("utf-8").split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        found[title.strip()] = {name: _member(types) for name, types in _ROW.findall(text)}
    return found


def _member(text: str) -> Member:
    kinds, _, optional = text.partition(",")
    return Member(tuple(one for kind in kinds.split(" or ") for one in _TYPES[kind.strip()]), optional.strip() == "optional")


def misfits(value: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with an object that a command printed, one sentence each."""
    members = described().get(str(value.get("type")))
    if members is None:
        yield f"docs/json.md has no object {value.get('type')!r}"
        return
    for name in value.keys() - members.keys():
        yield f"{value['type']}: docs/json.md has no member {name}"
    for name, member in members.items():
        if name not in value:
            if not member.optional:
                yield f"{value['type']}: {name} is missing"
        elif not member.holds(value[name]):
            yield f"{value['type']}: {name} is {value[name]!r}"
