"""Findings: the results of an inspection, as data.

A finding names a stable code of the catalogue (`rmqstore.catalogue`), where it was seen, and the evidence. Codes never change meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """Severity of a finding. Only `ERROR` makes a command exit with status 1."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One observation about a store.

    `file` is relative to the store root with `/` as separator, `position` and `length` are bytes inside that file, `offset` is a
    physical offset of the commit log, if there is one. `expected` and `found` are the evidence (numbers or short text). `store` is
    the path of the store if there are several. `count`: number of equal findings that this one represents; `places` are the next of them,
    `digest` identifies them all.
    """

    code: str
    severity: Severity
    message: str
    file: str | None = None
    position: int | None = None
    length: int | None = None
    offset: int | None = None
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    expected: Any = None
    found: Any = None
    mend: str | None = None
    store: str | None = None
    count: int | None = None
    places: tuple[Finding, ...] = ()
    digest: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the finding as the object that `--format json` prints, every documented key present."""
        return {
            "type": "finding",
            **({} if self.store is None else {"store": self.store}),
            "code": self.code,
            "severity": str(self.severity),
            "file": self.file,
            "position": self.position,
            "length": self.length,
            "offset": self.offset,
            "topic": self.topic,
            "queue_id": self.queue_id,
            "queue_offset": self.queue_offset,
            "message": self.message,
            "expected": self.expected,
            "found": self.found,
            "mend": self.mend,
            **({} if self.count is None else {"count": self.count}),
            **({} if self.digest is None else {"places": [place.place_as_json() for place in self.places], "digest": self.digest}),
        }

    def place_as_json(self) -> dict[str, Any]:
        """Return the place of the finding as a JSON object."""
        names = ("file", "position", "offset", "topic", "queue_id", "queue_offset")
        return {name: getattr(self, name) for name in names}
