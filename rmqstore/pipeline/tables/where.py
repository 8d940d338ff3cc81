"""Conditions of a table as a text: `topic = 'orders' and physical_offset between 0 and 100000 and queue_id in (1, 2)`."""

from __future__ import annotations

import re
from typing import Any

from rmqstore.dump.request import parse_time
from rmqstore.errors import UsageError
from rmqstore.pipeline.tables.selection import Condition
from rmqstore.pipeline.tables.table import Column, Table

_LITERAL = r"(?:-?\d+|'(?:[^']|'')*')"
_ONE = re.compile(
    rf"\s*(?P<name>\w+)\s*(?:(?P<sign><=|>=|=|<|>)\s*(?P<value>{_LITERAL})"
    rf"|in\s*\(\s*(?P<values>{_LITERAL}(?:\s*,\s*{_LITERAL})*)\s*\)"
    rf"|between\s+(?P<low>{_LITERAL})\s+and\s+(?P<high>{_LITERAL}))\s*",
    re.IGNORECASE,
)
_AND = re.compile(r"and\b", re.IGNORECASE)
_EXAMPLE = (
    "Conditions are COLUMN = 1, <, <=, >, >=, in (1, 2), between 1 and 2, joined by `and`; texts are in '…' and take = and in; "
    "times are 1700000000000 or '2024-01-31T12:00:00Z'."
)


def conditions(text: str, table: Table) -> dict[str, Condition]:
    """Return the conditions by column. Raises UsageError for other texts, and for columns that the table cannot select by."""
    found: dict[str, Condition] = {}
    place = 0
    while True:
        one = _ONE.match(text, place)
        if one is None:
            raise UsageError(f"The condition {text[place:].strip()!r} is not understood.", _EXAMPLE)
        name = one["name"]
        found[name] = _condition(one, table).both(found.get(name, Condition()))
        if one.end() == len(text):
            return found
        following = _AND.match(text, one.end())
        if following is None:
            raise UsageError(f"The condition {text[one.end() :].strip()!r} is not understood.", _EXAMPLE)
        place = following.end()


def _condition(one: re.Match[str], table: Table) -> Condition:
    name = one["name"]
    if name not in table.selectable:
        raise UsageError(f"The table {table.name} has no conditions on {name}.", f"It has them on {', '.join(table.selectable)}.")
    column = next(column for column in table.columns if column.name == name)
    if one["values"] is not None:
        return Condition(among=frozenset(_value(text, column) for text in re.findall(_LITERAL, one["values"])))
    if one["value"] is not None and one["sign"] == "=":
        return Condition(among=frozenset({_value(one["value"], column)}))
    if column.type == "string":
        raise UsageError(f"The column {name} holds texts, which have no order here.", _EXAMPLE)
    if one["low"] is not None:
        return Condition(_value(one["low"], column), _value(one["high"], column))
    value = _value(one["value"], column)
    return {
        "<": Condition(high=value - 1),
        "<=": Condition(high=value),
        ">": Condition(low=value + 1),
        ">=": Condition(low=value),
    }[one["sign"]]


def _value(text: str, column: Column) -> Any:
    quoted = text.startswith("'")
    content = text[1:-1].replace("''", "'") if quoted else text
    if column.is_time and quoted:
        return parse_time(content)
    if quoted != (column.type == "string"):
        raise UsageError(f"{text} is no {'number' if quoted else 'text'}.", _EXAMPLE)
    return content if quoted else int(text)
