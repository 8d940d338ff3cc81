"""The triage as a function of a sample store, a damage and a release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rmqstore.doctor.diagnosis import Diagnosis, diagnose
from rmqstore.doctor.nextsteps import Commands
from rmqstore.findings import Finding, Severity
from rmqstore.store.root import Store
from tests.support.damages import DAMAGES, apply
from tests.support.stores import case
from tests.support.storeview import StoreView

FreshStore = Callable[[str], Path]


def diagnosis_of(root: Path, base: str, release: str | None = None, **settings: str) -> Diagnosis:
    """The triage of the store at `root`, a copy of the sample `base`, for the release that wrote it unless another one is named."""
    sample = case(base)
    store = Store.open(root, settings={**sample.settings(root), **settings})
    return diagnose(store, release or sample.release, Commands(root))


def damaged(fresh_store: FreshStore, base: str, damage: str, *, abort: bool | None = None) -> Path:
    """A copy of a sample store with a named damage; `abort` is set or removed if it is given."""
    root = fresh_store(base)
    apply(DAMAGES[damage](StoreView(root, case(base).settings(root))), root)
    if abort is not None:
        (root / "abort").unlink(missing_ok=True)
        if abort:
            (root / "abort").touch()
    return root


def complaints(diagnosis: Diagnosis) -> list[Finding]:
    """Findings worse than an info, but those about the disk of the machine that runs the test."""
    return [finding for finding in diagnosis.findings if finding.severity is not Severity.INFO and finding.code != "RMQ-ST-SPACE"]


def codes(diagnosis: Diagnosis) -> set[str]:
    """The codes of all findings."""
    return {finding.code for finding in diagnosis.findings}
