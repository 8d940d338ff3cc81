"""Thousands of equal findings as one, with a count and the first places."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rmqstore.findings import Finding
from rmqstore.verify.identity import identity

MOST_ALONE = 25
"""Findings of one code that are shown one by one."""
_PLACES = 5


def digest(findings: Iterable[Finding]) -> str:
    """Return a number for a set of findings that another set does not have, in whatever order they come."""
    lines = sorted(repr(identity(finding)) for finding in findings)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def grouped(findings: Sequence[Finding], unlisted: int = 0) -> Iterator[Finding]:
    """Yield findings of one code, or one in their place where they are many; `unlisted` more of them were only counted."""
    if len(findings) + unlisted <= MOST_ALONE:
        yield from findings
        return
    count = sum(finding.count or 1 for finding in findings) + unlisted
    first = findings[0]
    message = f"{count} findings of this kind, the first: {first.message}"
    yield replace(first, message=message, count=count, places=tuple(findings[1 : 1 + _PLACES]), digest=digest(findings))
