"""The verdict: class, headline and areas, derived in one place from what the next start does and from the findings.

The class is that of the worst area, so no finding of severity error is below a good headline.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rmqstore.catalogue import CATALOGUE
from rmqstore.doctor.areas import Area, AreaReport, Effect, Harm, State
from rmqstore.findings import Finding, Severity
from rmqstore.formats.naming import HALF_TOPIC, OP_HALF_TOPIC

HEADLINE = 120
"""Characters of a headline at most."""
_REASONS = 3
"""Reasons of one area that are spelled out."""
_STATES = list(State)


class Class(StrEnum):
    """The class with which the headline begins, the worst first."""

    DOES_NOT_START = "DOES NOT START"
    STARTS_BUT = "STARTS, BUT"
    NOT_SURE = "NOT SURE"
    NOTHING_LOST = "STARTS, NOTHING LOST"


_CLASSES = {State.STOPS: Class.DOES_NOT_START, State.LOSES: Class.STARTS_BUT, State.NOT_CHECKED: Class.NOT_SURE}

_AREAS = {
    "CL": Area.COMMIT_LOG,
    "CQ": Area.QUEUES,
    "IX": Area.INDEX,
    "TM": Area.DELAYED,
    "CF": Area.TOPICS,
    "CM": Area.OTHER,
    "RD": Area.QUEUES,
    "DL": Area.COMMIT_LOG,
    "CP": Area.COMMIT_LOG,
    "ST": Area.OTHER,
}
_AREA_OF_CODE = {
    "RMQ-ST-CUT": Area.COMMIT_LOG,
    "RMQ-ST-PATH": Area.COMMIT_LOG,
    "RMQ-CL-TRANSACTION": Area.TRANSACTIONS,
    "RMQ-CP-INDEX": Area.INDEX,
    "RMQ-ST-IN-USE": Area.MACHINE,
    "RMQ-ST-SPACE": Area.MACHINE,
    "RMQ-ST-OWNER": Area.MACHINE,
    "RMQ-ST-MODE": Area.MACHINE,
}
_AREA_OF_DIRECTORY = {
    "commitlog": Area.COMMIT_LOG,
    "checkpoint": Area.COMMIT_LOG,
    "consumequeue": Area.QUEUES,
    "consumequeue_ext": Area.QUEUES,
    "batchconsumequeue": Area.QUEUES,
    "index": Area.INDEX,
    "timerlog": Area.DELAYED,
    "timerwheel": Area.DELAYED,
    "abort": Area.MACHINE,
    "lock": Area.MACHINE,
    "config/consumerOffset.json": Area.PROGRESS,
    "config/consumerOffsets": Area.PROGRESS,
    "config/lmqConsumerOffset.json": Area.PROGRESS,
    "config/delayOffset.json": Area.DELAYED,
    "config/timercheck": Area.DELAYED,
    "config/timermetrics": Area.DELAYED,
    "config": Area.TOPICS,
}
_IN_WORDS = frozenset({"RMQ-CL-GAP", "RMQ-CF-NAME", "RMQ-CF-DIFFERS", "RMQ-ST-KIND", "RMQ-ST-SETTING"})
"""Findings whose message says more than a title and the file, which is not the missing one."""
# Findings that mean that something could not be checked, whatever their severity.
_UNREAD = {
    "RMQ-ST-UNREADABLE": "{} could not be read",
    "RMQ-ST-OWNER": "{} belongs to another user, and the broker has no permission to write it",
    "RMQ-ST-MODE": "{} has no permission for its owner",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a triage. `effects`: all that are not ok, the worst first."""

    cls: Class
    headline: str
    areas: tuple[AreaReport, ...]
    effects: tuple[Effect, ...]


def conclude(effects: Iterable[Effect], findings: Sequence[Finding], *, starts: bool | None, unfinished: str | None = None) -> Verdict:
    """Return the verdict of a start with these effects on a store with these findings.

    `starts`: None where it is unknown, False where an effect says why. `unfinished`: a repair that was stopped in the middle.
    """
    known = list(effects)
    if unfinished is not None:
        known.append(Effect(Area.OTHER, State.LOSES, unfinished, Harm.LOST))
    known += _of_findings(findings, {effect.area for effect in known if effect.state in (State.STOPS, State.LOSES)})
    bad = sorted((effect for effect in known if effect.state is not State.OK), key=_badness)
    cls = _class_of(bad, starts)
    return Verdict(cls, _headline(cls, bad, unfinished), tuple(_areas(known, bad)), tuple(bad))


def area_of(finding: Finding) -> Area:
    """Return the area that a finding is about: by its code, or for an unreadable file by that file."""
    part = finding.code.split("-")[1]
    if finding.topic in (HALF_TOPIC, OP_HALF_TOPIC) and part == "CF":
        return Area.TRANSACTIONS
    if finding.code in _AREA_OF_CODE:
        return _AREA_OF_CODE[finding.code]
    if part in ("ST", "CF", "RD") and finding.file is not None:
        directories = finding.file.split("/")
        for name in (finding.file.removesuffix(".bak"), "/".join(directories[:2]), directories[0]):
            if name in _AREA_OF_DIRECTORY:
                return _AREA_OF_DIRECTORY[name]
    return _AREAS.get(part, Area.OTHER)


def _of_findings(findings: Sequence[Finding], explained: set[Area]) -> Iterable[Effect]:
    """Yield effects that findings add: every error harms its area, and what could not be read was not checked.

    Errors in `explained` areas add nothing to an effect that says more.
    """
    errors: dict[Area, list[Finding]] = defaultdict(list)
    unread: dict[tuple[Area, str], list[str]] = defaultdict(list)
    for finding in findings:
        area = area_of(finding)
        if finding.code in _UNREAD:
            unread[area, finding.code].append(finding.file or "a file")
        elif finding.severity is Severity.ERROR and area not in explained:
            errors[area].append(finding)
    for area, found in errors.items():
        text = found[0].message if found[0].code in _IN_WORDS else f"{CATALOGUE[found[0].code].title}: {found[0].file or found[0].message}"
        yield Effect(area, State.LOSES, text, Harm.OTHER, None)
    for (area, code), files in unread.items():
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        yield Effect(area, State.NOT_CHECKED, _UNREAD[code].format(files[0]) + more, Harm.OTHER, len(files))


def _badness(effect: Effect) -> tuple[int, int, int]:
    """Return a key to sort by; reasons not to start stay in the order in which the broker meets them."""
    if effect.state is State.STOPS:
        return 0, 0, 0
    return _STATES.index(effect.state), effect.harm, -(effect.count or 0)


def _class_of(bad: Sequence[Effect], starts: bool | None) -> Class:
    if starts is False:
        return Class.DOES_NOT_START
    worst = _CLASSES[bad[0].state] if bad else Class.NOTHING_LOST
    # Whether a broker starts at all is the greater doubt.
    return Class.NOT_SURE if starts is None and worst is not Class.DOES_NOT_START else worst


def _headline(cls: Class, bad: Sequence[Effect], unfinished: str | None) -> str:
    if cls is Class.NOTHING_LOST:
        return str(cls)
    fitting = [effect for effect in bad if _CLASSES[effect.state] is cls] or list(bad)
    text = unfinished or (fitting[0].text if fitting else "the reason is unknown")
    others = len({effect.area for effect in bad} - {fitting[0].area}) if fitting else 0
    more = f" (+ {others} more {'area' if others == 1 else 'areas'})" if others else ""
    between = " " if cls is Class.STARTS_BUT else ": "
    return shortened(f"{cls}{between}{text}", HEADLINE - len(more)) + more


def shortened(text: str, length: int) -> str:
    """Return `text` in one line and with at most `length` characters."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"


def _areas(known: Sequence[Effect], bad: Sequence[Effect]) -> Iterable[AreaReport]:
    for area in Area:
        mine = [effect for effect in bad if effect.area is area]
        if mine:
            state = mine[0].state
            reasons = [effect.text for effect in mine if effect.state is state]
            more = [f"and {len(reasons) - _REASONS} more"] if len(reasons) > _REASONS else []
            counts = [effect.count for effect in mine if effect.state is state and effect.harm is mine[0].harm]
            total = sum(count for count in counts if count is not None)
            yield AreaReport(area, state, total if any(counts) else None, "; ".join([*reasons[:_REASONS], *more]))
        else:
            notes = [effect.text for effect in known if effect.area is area]
            yield AreaReport(area, State.OK, None, "; ".join(notes))
