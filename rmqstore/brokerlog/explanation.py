"""A group of log lines as the object that `explain` prints: its meaning, in general and for one store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rmqstore.brokerlog.groups import Group
from rmqstore.brokerlog.nearest import nearest
from rmqstore.brokerlog.places import Place, Places
from rmqstore.brokerlog.state import state_of
from rmqstore.shellwords import quoted
from rmqstore.store.root import Store

_SHOWN_PLACES = 20
_VALUE = re.compile(r"\{(\w+)\}|\bSTORE\b")
UNKNOWN = "Not in the table of log lines: nothing is known about it."


class Explainer:
    """Turns groups into objects; with a store it looks up what the lines name there."""

    def __init__(self, store: Store | None = None, *, candidates: bool = False) -> None:
        """`candidates`: lines that are not in the table get the rows that resemble them."""
        self._candidates = candidates
        self._store = store
        self._places = Places(store) if store is not None else None

    def explain(self, group: Group) -> dict[str, Any]:
        """Return the object of `--format json`; every documented key is present."""
        line, cause = group.line, group.cause
        known = line or cause
        return {
            "type": "log_line",
            "code": known.code if known is not None else None,
            "level": group.level,
            "severity": str(group.severity) if group.severity is not None else ("harmless" if group.harmless else None),
            "template": group.template,
            "releases": line.releases if line is not None else None,
            "count": group.count,
            "first_time": group.first_time,
            "last_time": group.last_time,
            "example": group.example,
            "values": group.values(),
            "lines_with_other_values": group.other_values,
            "meaning": known.meaning if known is not None else UNKNOWN,
            "then": line.then if line is not None else None,
            "cause": None if cause is None or line is None else {"code": cause.code, "meaning": cause.meaning},
            "codes": list(group.codes),
            "next": self._command(group),
            "candidates": [one.as_json() for one in nearest(group.example)] if known is None and self._candidates else [],
            "store": None if self._places is None else [place.as_json() for place in self._found(group)],
        }

    def _command(self, group: Group) -> str | None:
        """Return the next command, that of the cause if it is known, with the values of the first line."""
        known = group.cause or group.line
        if known is None:
            return None
        values = group.places[0] if group.places else {}
        root = "STORE" if self._store is None else quoted(self._store.root)

        def word(found: re.Match[str]) -> str:
            name = found[1]
            return root if name is None else quoted(values[name]) if name in values else name.upper()

        return _VALUE.sub(word, known.next)

    def _found(self, group: Group) -> Iterator[Place]:
        if self._places is None or self._store is None:
            return
        for about in dict.fromkeys(entry.about for entry in (group.line, group.cause) if entry is not None):
            if about is not None:
                yield from state_of(self._store, about)
        seen: set[str] = set()
        for values in group.places if group.line is not None or group.cause is not None else ():
            for place in self._places.of(values):
                if place.named not in seen and len(seen) < _SHOWN_PLACES:
                    seen.add(place.named)
                    yield place
