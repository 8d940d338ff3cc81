"""One check on one store, with what it may know about the log taken from the ends of the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from rmqstore.findings import Finding, Severity
from rmqstore.store.ends import log_ends
from rmqstore.store.root import Store
from rmqstore.verify.context import Context, Options


def context_of(root: Path, settings: Mapping[str, str] | None = None, *, parts: frozenset[str] = frozenset()) -> Context:
    store = Store.open(root, settings=settings)
    context = Context(store, Options(parts=parts))
    if (root / "commitlog").is_dir():
        ends = log_ends(store.commitlog)
        context.log.min_offset = store.commitlog.min_offset
        context.log.end_offset = ends.end_offset
        context.log.first_timestamp = ends.first.store_timestamp if ends.first else 0
        context.log.last_timestamp = ends.last.store_timestamp if ends.last else 0
    return context


def run(check: ModuleType, root: Path, settings: Mapping[str, str] | None = None) -> list[Finding]:
    """Every finding of the check."""
    return list(check.check(context_of(root, settings)))


def codes(findings: list[Finding]) -> Counter[str]:
    return Counter(finding.code for finding in findings)


def only(findings: list[Finding], code: str) -> Finding:
    """The one finding of this code; fails when there is none or more than one."""
    hits = [finding for finding in findings if finding.code == code]
    assert len(hits) == 1, f"{code}: {[(f.code, f.file, f.message) for f in findings]}"
    return hits[0]


def errors(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def patch(path: Path, position: int, data: bytes) -> None:
    """Overwrites bytes of a file."""
    with path.open("r+b") as stream:
        stream.seek(position)
        stream.write(data)
