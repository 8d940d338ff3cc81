"""The severity of findings in view of the simulated start: what the start itself repairs costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rmqstore.doctor.areas import Area, Effect, State
from rmqstore.doctor.checks.configfiles import ConfigFiles
from rmqstore.doctor.predicted import Prediction
from rmqstore.findings import Finding, Severity

_AT_LOAD = frozenset({"RMQ-CL-PREALLOC", "RMQ-CL-ZEROLEN", "RMQ-CL-NAME", "RMQ-CQ-ZEROLEN", "RMQ-CQ-BEHIND", "RMQ-TM-LOG-ZEROLEN"})
"""Findings whose files a completed start has deleted, cut or filled up, unless an effect says otherwise."""
_CHECKPOINT = "RMQ-CP-"
"""The checkpoint decides where a start begins to read, which was simulated, and a stop writes it again."""
_SIMULATED = (Area.COMMIT_LOG, Area.QUEUES)


def weighed(findings: Sequence[Finding], effects: Sequence[Effect], prediction: Prediction, files: ConfigFiles) -> tuple[Finding, ...]:
    """Return the findings with the severity that they have for the next start."""
    outcome = prediction.outcome
    known = outcome.starts is True and outcome.scan is not None and outcome.scan.stop_offset == prediction.context.log.end_offset
    harmless = known and not any(effect.state is not State.OK and effect.area in _SIMULATED for effect in effects)
    return tuple(_weighed(finding, files, harmless=harmless) for finding in findings)


def _weighed(finding: Finding, files: ConfigFiles, *, harmless: bool) -> Finding:
    if finding.severity is not Severity.ERROR:
        return finding
    repaired = harmless and (finding.code in _AT_LOAD or finding.code.startswith(_CHECKPOINT))
    return replace(finding, severity=Severity.WARNING) if repaired or _backed_up(finding, files) else finding


def _backed_up(finding: Finding, files: ConfigFiles) -> bool:
    """Return whether it is about a configuration file in whose place a whole `.bak` is loaded."""
    backed = finding.code in ("RMQ-CF-JSON", "RMQ-CF-EMPTY") and finding.file is not None
    return backed and Path(finding.file or "").name in files.from_backup
