"""Entries without read permission: the areas that are unknown without them, the findings and effects that rest on their absence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from pathlib import PurePosixPath

from rmqstore.doctor.areas import Area, Effect, State
from rmqstore.doctor.verdict import area_of
from rmqstore.findings import Finding, Severity
from rmqstore.formats.naming import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from rmqstore.prediction.needed import decides
from rmqstore.prediction.outcome import Outcome
from rmqstore.store.access import Denied, log_directories
from rmqstore.store.parts import part_kind
from rmqstore.store.root import Store
from rmqstore.verify.context import Context

_OF_LOG = frozenset({Area.COMMIT_LOG, Area.QUEUES, Area.INDEX})
_COMPARED_WITH_QUEUES = frozenset({Area.PROGRESS, Area.DELAYED, Area.TRANSACTIONS})
_OF_TOPIC = {
    SCHEDULE_TOPIC: Area.DELAYED,
    TIMER_TOPIC: Area.DELAYED,
    HALF_TOPIC: Area.TRANSACTIONS,
    OP_HALF_TOPIC: Area.TRANSACTIONS,
}
_AREAS = {
    "commitlog": _OF_LOG,
    "checkpoint": _OF_LOG,
    "index": frozenset({Area.INDEX}),
    "timerlog": frozenset({Area.DELAYED}),
    "timerwheel": frozenset({Area.DELAYED}),
    "abort": frozenset({Area.MACHINE}),
    "abort.bak": frozenset({Area.MACHINE}),
    "lock": frozenset({Area.MACHINE}),
    "config": frozenset({*_COMPARED_WITH_QUEUES, Area.TOPICS, Area.QUEUES}),
    "config/topics.json": frozenset({Area.TOPICS, Area.QUEUES}),
    "config/consumerOffset.json": frozenset({Area.PROGRESS, Area.TRANSACTIONS}),
    "config/lmqConsumerOffset.json": frozenset({Area.PROGRESS}),
    "config/delayOffset.json": frozenset({Area.DELAYED}),
    "config/timercheck": frozenset({Area.DELAYED}),
    "config/timermetrics": frozenset({Area.DELAYED}),
}
_RIGHTS = frozenset({"RMQ-ST-UNREADABLE", "RMQ-ST-OWNER", "RMQ-ST-MODE"})
_SURE = frozenset({*_RIGHTS, "RMQ-ST-KIND", "RMQ-ST-NO-START", "RMQ-ST-SETTING"})
"""Findings determined from names, permissions and lengths."""
_TREES = ("consumequeue", "consumequeue_ext", "batchconsumequeue")


def findings(context: Context, denied: Iterable[Denied]) -> Iterator[Finding]:
    """Yield a finding for every file or directory without read permission."""
    for one in denied:
        yield context.finding("RMQ-ST-UNREADABLE", one.message, file=one.path)


def areas_of(denied: Denied) -> frozenset[Area]:
    """Return the areas that cannot be judged without this file or directory."""
    part, *below = denied.file.split("/")
    if part in _TREES:
        if not below and part == _TREES[0]:
            return frozenset({Area.QUEUES, *_COMPARED_WITH_QUEUES})
        return frozenset({Area.QUEUES, _OF_TOPIC.get(below[0] if below else "", Area.PROGRESS)})
    if denied.file.startswith("/"):  # a directory of the log that is not below the root
        return _OF_LOG
    return _AREAS.get(denied.file.removesuffix(".bak")) or (_AREAS["config/topics.json"] if part == "config" else None) or _of_part(part)


def _of_part(part: str) -> frozenset[Area]:
    return _AREAS.get(part.partition(".")[0], frozenset({Area.OTHER}))


def only_known(effects: Iterable[Effect], denied: Sequence[Denied], outcome: Outcome) -> list[Effect]:
    """Return the effects that cannot result from unread files, and one for each area concerned that it was not checked."""
    if not denied:
        return list(effects)
    why: dict[Area, str] = {}
    for one in denied:
        without_scan = _OF_LOG if outcome.scan is None and outcome.starts is None and decides(one) else frozenset()
        for area in sorted(areas_of(one) | without_scan):
            why.setdefault(area, f"{one.file} could not be read")
    kept = [one for one in effects if one.state is State.STOPS or (one.area not in why and one.text != outcome.unknown)]
    # Areas that findings already report as unread are not reported twice.
    own = {area_of(Finding("RMQ-ST-UNREADABLE", Severity.ERROR, one.message, file=one.file)) for one in denied}
    return [*kept, *(Effect(area, State.NOT_CHECKED, text) for area, text in why.items() if area not in own)]


def without_guesses(store: Store, found: Iterable[Finding], denied: Sequence[Denied]) -> list[Finding]:
    """Return the findings outside the areas concerned, or from the bytes of the log.

    An entry without read permission is named once; nothing below it is named, and nothing that no broker knows.
    """
    concerned = frozenset(area for one in denied for area in areas_of(one))
    known = {one.file for one in denied}
    named: set[str | None] = set()
    kept = []
    for one in found:
        if one.code in _RIGHTS and _is_foreign(store, one.file):
            continue
        if one.code == "RMQ-ST-UNREADABLE":
            if one.file in named or _is_below(one.file, known):
                continue
            named.add(one.file)
        elif area_of(one) in concerned and one.code not in _SURE and not (one.code.startswith("RMQ-CL-") and one.position is not None):
            continue
        kept.append(one)
    return kept


def _is_below(file: str | None, directories: Set[str]) -> bool:
    return file is not None and any(path.as_posix() in directories for path in PurePosixPath(file).parents)


def _is_foreign(store: Store, file: str | None) -> bool:
    if file is None or any((store.root / file).is_relative_to(directory) for directory in log_directories(store)):
        return False
    return part_kind(file.partition("/")[0]) is None
