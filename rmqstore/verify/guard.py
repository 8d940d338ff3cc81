"""Guards: one file that cannot be read must not end a verification, and one wrong setting must not print a line per file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from rmqstore.errors import RmqstoreError
from rmqstore.findings import Finding, Severity
from rmqstore.verify.context import Context

SHOWN = 20
_BY_SEVERITY = tuple(Severity).index
Unmade = tuple[str, partial[Finding]]
"""A finding that is not created yet: its code, and the call that creates it."""


def guarded(context: Context, path: Path, findings: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield what `findings()` yields; where it fails to read, a finding about `path` in place of the rest."""
    try:
        yield from findings()
    except RmqstoreError as error:
        yield context.finding("RMQ-ST-UNREADABLE", error.message, file=path)
    except OSError as error:
        yield context.finding("RMQ-ST-UNREADABLE", f"reading failed: {error.strerror or error}", file=path)


def limited(context: Context, path: Path, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the first findings of each code; those left out are counted in one more finding of that code, as severe, about `path`."""
    worst: dict[str, Severity] = {}

    def unmade() -> Iterator[Unmade]:
        for found in findings:
            worst[found.code] = max(found.severity, worst.get(found.code, found.severity), key=_BY_SEVERITY)
            yield found.code, partial(replace, found, offset=found.offset)

    return limited_unmade(context, path, unmade(), worst)


def limited_unmade(
    context: Context, path: Path, findings: Iterable[Unmade], severities: Mapping[str, Severity] = MappingProxyType({})
) -> Iterator[Finding]:
    """Yield as `limited` does, for findings that may come by the million: only those that are shown are created.

    Those left out are counted in a finding at the lowest physical offset of them, if all of them have one. `severities`: of the codes
    whose findings are not as severe as the catalogue says.
    """
    numbers: Counter[str] = Counter()
    lowest: dict[str, int | None] = {}
    for code, make in findings:
        numbers[code] += 1
        if numbers[code] <= SHOWN:
            yield make()
            continue
        offset = make.keywords.get("offset")
        before = lowest.setdefault(code, offset)
        lowest[code] = None if offset is None or before is None else min(before, offset)
    for code, offset in lowest.items():
        more = numbers[code] - SHOWN
        rest = context.finding(code, f"{more} more findings of this kind below {path.name}", file=path, offset=offset, count=more)
        yield replace(rest, severity=severities.get(code, rest.severity))
