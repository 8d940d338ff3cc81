"""The identity of findings: of two runs, or of two looks at a store that is written to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmqstore.findings import Finding

Identity = tuple[object, ...]

_MEMBERS = ("store", "code", "file", "position", "length", "offset", "topic", "queue_id", "queue_offset", "found")
_PLACE = ("code", "file", "topic", "queue_id", "queue_offset", "offset")


def identity(finding: Finding) -> Identity:
    """Return what makes a finding the same one in two runs: what it says and where, not its severity."""
    return tuple(getattr(finding, name) for name in _MEMBERS)


def identity_of_json(finding: Mapping[str, Any]) -> Identity:
    """Return the identity of a finding from the object that was printed."""
    return tuple(finding.get(name) for name in _MEMBERS)


def place(finding: Finding) -> Identity:
    """Return what two looks at a store that is written to have in common: the code and the place, not the extent."""
    position = finding.position if finding.offset is None and finding.queue_offset is None else None
    return (*(getattr(finding, name) for name in _PLACE), position)
