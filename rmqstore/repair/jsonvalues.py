"""Frozen dataclasses as JSON and back, by the types of their fields. What does not fit its type is refused, never guessed."""

from __future__ import annotations

import base64
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

_LARGEST = 2**63 - 1

Value = TypeVar("Value")


def to_json(value: Any) -> Any:
    """`value` as objects, lists, numbers and text; bytes as base64, fields that have their default left out."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: to_json(getattr(value, field.name))
            for field in fields(value)
            if field.default is MISSING or getattr(value, field.name) != field.default
        }
    if isinstance(value, Mapping):
        return {name: to_json(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return str(value) if isinstance(value, StrEnum) else value


def from_json(kind: type[Value], data: Any) -> Value:
    """The value of a dataclass that `data` spells. Raises ValueError, with the place, for whatever does not fit."""
    value: Value = _decoded(kind, data, kind.__name__.lower())
    return value


def _decoded(kind: Any, data: Any, place: str) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        (inner,) = (one for one in get_args(kind) if one is not type(None))
        return None if data is None else _decoded(inner, data, place)
    if origin is tuple:
        return _tuple(get_args(kind), data, place)
    if origin is not None and issubclass(origin, Mapping):
        items = get_args(kind)[1]
        return {name: _decoded(items, item, f"{place}.{name}") for name, item in _of(dict, data, place).items()}
    if is_dataclass(kind):
        return _dataclass(kind, _of(dict, data, place), place)
    return _scalar(kind, data, place)


def _tuple(items: tuple[Any, ...], data: Any, place: str) -> tuple[Any, ...]:
    listed = _of(list, data, place)
    if items[-1] is Ellipsis:
        items = (items[0],) * len(listed)
    if len(items) != len(listed):
        raise ValueError(f"{place} has {len(listed)} parts, not {len(items)}")
    return tuple(_decoded(item, value, f"{place}[{number}]") for number, (item, value) in enumerate(zip(items, listed, strict=True)))


def _dataclass(kind: Any, data: dict[str, Any], place: str) -> Any:
    hints = _hints(kind)
    unknown = data.keys() - hints.keys()
    if unknown:
        raise ValueError(f"{place} has an unknown field {min(unknown)!r}")
    for field in fields(kind):
        if field.name not in data and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{place} has no {field.name}")
    return kind(**{name: _decoded(hints[name], item, f"{place}.{name}") for name, item in data.items()})


def _scalar(kind: Any, data: Any, place: str) -> Any:
    if kind is bytes:
        try:
            return base64.b64decode(_of(str, data, place), validate=True)
        except ValueError:
            raise ValueError(f"{place} is not base64") from None
    if issubclass(kind, StrEnum):
        try:
            return kind(_of(str, data, place))
        except ValueError:
            raise ValueError(f"{place} is {data!r}, not one of {', '.join(kind)}") from None
    value = _of(kind, data, place)
    if kind is int and not -_LARGEST <= value <= _LARGEST:
        raise ValueError(f"{place} is too large")
    return value


def _of(kind: type[Value], data: Any, place: str) -> Value:
    # A bool is an int to isinstance, but not to a reader of JSON.
    if type(data) is not kind:
        raise ValueError(f"{place} is not of type {kind.__name__}")
    return data


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
