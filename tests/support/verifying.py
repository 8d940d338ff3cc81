"""Verification as a function from a store directory to findings, as tests want it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from rmqstore.commands.verify import PARTS
from rmqstore.findings import Finding, Severity
from rmqstore.store.root import Store
from rmqstore.verify.context import Options
from rmqstore.verify.engine import verify as verify_store

# everything but the surroundings of a store, which costs a look at every process of this machine
DATA_PARTS = tuple(part for part in PARTS if part != "store")


def verify(root: Path, settings: Mapping[str, str] | None = None, parts: Iterable[str] = ()) -> list[Finding]:
    """Every finding about the store at `root`, or those about some parts. One thread: small stores are done before a second one starts."""
    return verify_store(Store.open(root, settings=settings), Options(parts=frozenset(parts), threads=1))


def errors(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def new_findings(before: list[Finding], after: list[Finding]) -> list[Finding]:
    """What `after` says that `before` did not."""
    return [finding for finding in after if finding not in before]
