"""Verification as a function from a store directory to findings, as tests want it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rmqstore.findings import Finding, Severity
from rmqstore.store.root import Store
from rmqstore.verify.engine import verify as verify_store


def verify(root: Path, settings: Mapping[str, str] | None = None) -> list[Finding]:
    """Every finding about the store at `root`."""
    return list(verify_store(Store.open(root, settings=settings)))


def errors(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def new_findings(before: list[Finding], after: list[Finding]) -> list[Finding]:
    """What `after` says that `before` did not."""
    return [finding for finding in after if finding not in before]
