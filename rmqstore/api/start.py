"""The next start of a broker: its effect on a store, and its cost in each area."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rmqstore.api.html import table
from rmqstore.doctor.areas import AreaReport
from rmqstore.doctor.diagnosis import diagnose as diagnose_store
from rmqstore.doctor.nextsteps import Commands
from rmqstore.findings import Finding
from rmqstore.pipeline.job import StoreAt
from rmqstore.prediction.release import AUTO, choose_release
from rmqstore.prediction.report import as_json
from rmqstore.prediction.simulation import simulate


@dataclass(frozen=True, slots=True)
class Prediction:
    """The effect of a broker of `release` on a store. `starts` and `lost_messages` are None if unknown; `unknown` has the reason."""

    release: str
    starts: bool | None
    unknown: str | None
    lost_messages: int | None
    details: dict[str, Any]
    """The object that `rmqstore recover --dry-run --format json` prints (docs/prediction.md)."""

    def _repr_html_(self) -> str:
        return table(f"Start of a broker of {self.release}", ("field", "value"), self.details.items())


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer of `rmqstore doctor`: the headline, the areas of the store, findings, and the next command."""

    headline: str
    nothing_lost: bool
    areas: tuple[AreaReport, ...]
    findings: tuple[Finding, ...]
    next: str
    details: dict[str, Any]
    """The last object that `rmqstore doctor --format json` prints (docs/json.md)."""

    def _repr_html_(self) -> str:
        rows = ((one.area, one.state, one.count, one.reason) for one in self.areas)
        return table(self.headline, ("area", "state", "count", "reason"), rows)


def predict(at: StoreAt, release: str) -> Prediction:
    """Simulate the next start. Raises UsageError, UnreadableError."""
    store = at.open()
    outcome = simulate(store, choose_release(store, release).release)
    lost = None if outcome.lost is None else outcome.lost.messages
    return Prediction(outcome.release, outcome.starts, outcome.unknown, lost, as_json(outcome, store.root))


def diagnose(at: StoreAt, release: str) -> Diagnosis:
    """Diagnose a store. Raises UsageError."""
    store = at.open()
    found = diagnose_store(store, release, Commands(store.root, at.options, "" if release == AUTO else release))
    return Diagnosis(found.verdict.headline, found.nothing_lost, found.verdict.areas, found.findings, found.next, found.as_json())
