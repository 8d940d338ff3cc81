"""Field tables of the documentation, made from the declarations, so that docs/formats matches what is read and built."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqstore.formats.layout import core, static_size, type_name

if TYPE_CHECKING:
    from construct import Construct, Struct

_MARKED = re.compile(r"(<!-- (fields|values): (\w+)\.(\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_PATH = re.compile(r"this\['(\w+)'\]")


class Row(NamedTuple):
    """One field of a table. Offsets and widths are bytes; if they depend on other fields, these are named."""

    offset: str
    width: str
    type: str
    name: str
    meaning: str


def field_rows(struct: Struct) -> Iterator[Row]:
    """Yield rows of the named members of a structure, in the order of their bytes."""
    position, variable = 0, ""
    for member in struct.subcons:
        if not member.name:
            continue
        width = _width(member)
        yield Row(f"{position}{variable}", width, _type(member), member.name, member.docs)
        size = static_size(member)
        if size is not None:
            position += size
        else:
            variable += f" + {width if width.isidentifier() else f'len({member.name})'}"


def field_table(struct: Struct) -> str:
    """Return the Markdown table of a structure."""
    return _table(Row("offset", "width", "type", "field", "meaning"), *field_rows(struct))


def value_table(enum: type[IntEnum] | type[StrEnum]) -> str:
    """Return the Markdown table of a closed set of values; members with the same value share a row."""
    names: dict[Any, list[str]] = {}
    for name, member in enum.__members__.items():
        names.setdefault(member.value, []).append(name)
    rows = ((f"0x{value:X}" if isinstance(value, int) else value, ", ".join(same)) for value, same in names.items())
    return _table(("value", "name"), *rows)


_TABLES: dict[str, Callable[[Any], str]] = {"fields": field_table, "values": value_table}


def render_page(text: str) -> str:
    """Return the page with every table between its marks (`<!-- fields: module.NAME -->` … `<!-- end -->`) generated again."""

    def render(match: re.Match[str]) -> str:
        start, kind, module, name, end = match.groups()
        declared = getattr(importlib.import_module(f"rmqstore.formats.{module}"), name)
        return f"{start}{_TABLES[kind](declared)}\n{end}"

    return _MARKED.sub(render, text)


def described(text: str) -> set[tuple[str, str]]:
    """Return module and name of every declaration that a page shows."""
    return {(match[3], match[4]) for match in _MARKED.finditer(text)}


def _alternatives(member: Construct[Any, Any]) -> list[Construct[Any, Any]]:
    inner: Any = core(member)
    if hasattr(inner, "cases"):
        return list(inner.cases.values())
    return [inner.elsesubcon, inner.thensubcon] if hasattr(inner, "thensubcon") else []


def _width(member: Construct[Any, Any]) -> str:
    if (size := static_size(member)) is not None:
        return str(size)
    if alternatives := _alternatives(member):
        return " or ".join(_width(alternative) for alternative in alternatives)
    length = _PATH.fullmatch(repr(getattr(core(member), "length", None)))
    return length[1] if length else "rest"


def _type(member: Construct[Any, Any]) -> str:
    if alternatives := _alternatives(member):
        return " or ".join(dict.fromkeys(_type(alternative) for alternative in alternatives))
    members = getattr(core(member), "subcons", None)
    return ", ".join(sub.name for sub in members) if members else type_name(member)


def _table(head: tuple[str, ...], *rows: tuple[str, ...]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
