"""Frozen dataclasses as JSON and back, by the types of their fields. A value that does not fit its type is refused, never guessed."""

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
    """Return `value` as objects, lists, numbers and text; bytes as base64, fields that have their default left out."""
    if value is None or type(value) in (str, int, bool):
        return value
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        return {name: to_json(item) for name, item in value.items()}
    given = ((name, default, getattr(value, name)) for name, default in _defaults(value.__class__))
    return {name: to_json(item) for name, default, item in given if default is MISSING or item != default}


@cache
def _defaults(kind: Any) -> tuple[tuple[str, Any], ...]:
    """Return the names of the fields of a dataclass with their defaults."""
    return tuple((field.name, field.default) for field in fields(kind))


def from_json(kind: type[Value], data: Any) -> Value:
    """Return the value of a dataclass that `data` spells. Raises ValueError, with the place, for anything that does not fit."""
    value: Value = _decoded(kind, data, kind.__name__.lower())
    return value


def _decoded(kind: Any, data: Any, place: str) -> Any:
    shape, items = _shape(kind)
    if shape is types.UnionType:
        return None if data is None else _decoded(items[0], data, place)
    if shape is tuple:
        return _tuple(items, data, place)
    if shape is dict:
        return {name: _decoded(items[1], item, f"{place}.{name}") for name, item in _of(dict, data, place).items()}
    if shape is object:
        return _dataclass(kind, _of(dict, data, place), place)
    return _scalar(kind, data, place)


@cache
def _shape(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the kind of a type for the decoder, one of UnionType (with None), tuple, dict, object (a dataclass), None; and its parts."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return types.UnionType, tuple(one for one in get_args(kind) if one is not type(None))
    if origin is tuple:
        return tuple, get_args(kind)
    if origin is not None and issubclass(origin, Mapping):
        return dict, get_args(kind)
    return (object if is_dataclass(kind) else None), ()


def _tuple(items: tuple[Any, ...], data: Any, place: str) -> tuple[Any, ...]:
    listed = _of(list, data, place)
    if items[-1] is Ellipsis:
        items = (items[0],) * len(listed)
    if len(items) != len(listed):
        raise ValueError(f"{place} has {len(listed)} parts, not {len(items)}")
    return tuple(_decoded(item, value, f"{place}[{number}]") for number, (item, value) in enumerate(zip(items, listed, strict=True)))


def _dataclass(kind: Any, data: dict[str, Any], place: str) -> Any:
    hints, demanded = _fields(kind)
    unknown = data.keys() - hints.keys()
    if unknown:
        raise ValueError(f"{place} has an unknown field {min(unknown)!r}")
    missing = demanded - data.keys()
    if missing:
        raise ValueError(f"{place} has no {min(missing)}")
    return kind(**{name: _decoded(hints[name], item, f"{place}.{name}") for name, item in data.items()})


@cache
def _fields(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the types of the fields of a dataclass, and the names of those that have no default."""
    demanded = (field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING)
    return get_type_hints(kind), frozenset(demanded)


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
    # A bool is an int to isinstance, but not in JSON.
    if type(data) is not kind:
        raise ValueError(f"{place} is not of type {kind.__name__}")
    return data
