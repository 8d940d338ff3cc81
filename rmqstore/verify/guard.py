"""One file that cannot be read must not end a verification, and one wrong setting must not print a line per file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rmqstore.errors import RmqstoreError
from rmqstore.findings import Finding
from rmqstore.verify.context import Context

SHOWN = 20


def guarded(context: Context, path: Path, findings: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """What `findings()` yields; where it fails to read, a finding about `path` in place of the rest."""
    try:
        yield from findings()
    except RmqstoreError as error:
        yield context.finding("RMQ-ST-UNREADABLE", error.message, file=path)
    except OSError as error:
        yield context.finding("RMQ-ST-UNREADABLE", f"reading failed: {error.strerror or error}", file=path)


def limited(context: Context, path: Path, findings: Iterable[Finding], shown: int = SHOWN) -> Iterator[Finding]:
    """The first `shown` findings of each code; what is left out is counted in one more finding of that code about `path`."""
    numbers: Counter[str] = Counter()
    for found in findings:
        numbers[found.code] += 1
        if numbers[found.code] <= shown:
            yield found
    for code, number in numbers.items():
        if number > shown:
            yield context.finding(code, f"{number - shown} more findings of this kind below {path.name}", file=path)
