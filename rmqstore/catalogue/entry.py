"""One row of the catalogue: what a finding code means and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rmqstore.findings import Severity

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO


@dataclass(frozen=True, slots=True)
class Entry:
    """A finding code. Codes never change meaning; `crash_severity` replaces `severity` while `abort` indicates a crash."""

    code: str
    severity: Severity
    title: str
    meaning: str
    broker: Mapping[str, str]
    mend: str
    crash_severity: Severity | None = None

    def severity_in(self, *, crashed: bool) -> Severity:
        """Return the severity in a store whose broker stopped cleanly or crashed."""
        return self.crash_severity if crashed and self.crash_severity is not None else self.severity

    def as_json(self) -> dict[str, Any]:
        """Return the entry as the object that `rmqstore explain --format json` prints."""
        return {
            "type": "explanation",
            "code": self.code,
            "severity": str(self.severity),
            "crash_severity": None if self.crash_severity is None else str(self.crash_severity),
            "title": self.title,
            "meaning": self.meaning,
            "broker": dict(self.broker),
            "mend": self.mend,
        }
