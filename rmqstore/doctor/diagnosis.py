"""The whole triage of a store: the start is simulated, what decides it is checked, and findings are sorted by danger.

What a start does not read is not read either, except names, sizes, the first bytes of files, and all of a small store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from rmqstore.doctor.areas import Area, Effect, Harm, State
from rmqstore.doctor.assumed import Assumed, assumptions, contradicted
from rmqstore.doctor.checks import configuration, contents, forgotten, otherparts, progress, removed, space, timerstart, traps
from rmqstore.doctor.checks.configfiles import ConfigFiles
from rmqstore.doctor.checks.configured import with_evidence
from rmqstore.doctor.checks.due import Due, running
from rmqstore.doctor.checks.effects import effects_of
from rmqstore.doctor.checks.lastrun import LastRun
from rmqstore.doctor.checks.losses import Loss, losses_after
from rmqstore.doctor.checks.sample import read_sample
from rmqstore.doctor.checks.scanrange import ScanRange, read_range
from rmqstore.doctor.denied import only_known, without_guesses
from rmqstore.doctor.loglines import LOAD_EXCEPTION, lines_of
from rmqstore.doctor.logranges import LogRange, log_ranges
from rmqstore.doctor.nextsteps import Commands, may_repair, next_step, the_next_step
from rmqstore.doctor.observed import Observed, observe, unreadable
from rmqstore.doctor.predicted import Prediction
from rmqstore.doctor.sentence import sentence
from rmqstore.doctor.severity import weighed
from rmqstore.doctor.tieredstorage import check as check_tiered_storage
from rmqstore.doctor.verdict import Class, Verdict, area_of, conclude
from rmqstore.errors import RmqstoreError, UsageError
from rmqstore.findings import Finding, Severity
from rmqstore.jsonschema import SCHEMA
from rmqstore.prediction.blockers import BlockerCode
from rmqstore.prediction.consequences import consequences_of
from rmqstore.prediction.growth import goes_on
from rmqstore.prediction.outcome import Mode, Outcome
from rmqstore.prediction.places import places_of
from rmqstore.prediction.readable import unknown_outcome
from rmqstore.prediction.release import AUTO, Chosen
from rmqstore.store.access import log_directories
from rmqstore.store.mapped import list_directory, listing_once, skipping_denied
from rmqstore.store.root import QueueDirectory, Store
from rmqstore.store.transactions import read_transactions
from rmqstore.verify.context import Context, LogFacts, Options
from rmqstore.verify.horizon import Horizon, Mark, is_written, mark_of
from rmqstore.verify.parts import (
    checkpoint,
    compaction,
    config,
    configbackups,
    configcontent,
    confignames,
    files,
    rocksdb,
    surroundings,
    transactions,
)
from rmqstore.verify.parts.config import TOPICS, consumed_topics
from rmqstore.verify.queues.spans import QueueKey
from rmqstore.versions import PROFILES, profile_of

_LOOKS, _LOOKING = 4, 6.0
"""Looks at a store that a writer changes before a loss counts, and the seconds that they take at least together."""
IN_USE, CONFIGURATION = "in-use", "configuration"
_Found = TypeVar("_Found")

_MOST_DANGEROUS = (
    *(
        "RMQ-ST-UNFINISHED",
        "RMQ-ST-IN-USE",
        "RMQ-CL-EMPTY",
        "RMQ-ST-SETTING",
        "RMQ-ST-NO-START",
        "RMQ-ST-CUT",
        "RMQ-ST-PATH",
        "RMQ-CQ-START",
        "RMQ-CQ-GONE",
        "RMQ-CF-LOST",
        "RMQ-ST-ABORT-GONE",
    ),
    *("RMQ-TM-WHEEL-BEYOND", "RMQ-ST-RELEASE", "RMQ-ST-SPACE"),
)
"""Codes that come first, in this order, because of what the next start does; all others follow by severity and part."""
_OF_A_MISSING_FILE = frozenset({"RMQ-CL-GAP", "RMQ-CL-EMPTY", "RMQ-CQ-BEYOND", "RMQ-CQ-START"})
"""Findings that a commit log leaves where some of its files are on a volume that is missing."""
_PARTS = ("CL", "CQ", "CP", "CF", "TM", "ST", "IX", "CM")
_SEVERITIES = (Severity.ERROR, Severity.WARNING, Severity.INFO)


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason why the broker does not start: a code, the file, the message, and the lines of the broker's log.

    `before_store`: the message store is not even loaded.
    """

    code: str
    file: str | None
    message: str
    log: tuple[str, ...]
    before_store: bool = False

    @property
    def line(self) -> str:
        """The most specific line; `load exception` says nothing without the exception in the next one."""
        return ": ".join(self.log[:2]) if self.log[0] == LOAD_EXCEPTION else self.log[0]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of the triage. `starts` is None where it is unknown; `sentence` is the verdict with all its reasons."""

    release: str
    because: str
    outcome: Outcome
    starts: bool | None
    reasons: tuple[Reason, ...]
    loss: Loss
    verdict: Verdict
    sentence: str
    assumed: tuple[Assumed, ...]
    log: tuple[str, ...]
    findings: tuple[Finding, ...]
    next: str
    bytes_scanned: int
    log_ranges: tuple[LogRange, ...] = ()

    @property
    def nothing_lost(self) -> bool:
        """Whether the command ends with status 0."""
        return self.verdict.cls is Class.NOTHING_LOST

    def as_json(self) -> dict[str, Any]:
        """Return the last object of `doctor --format json`."""
        counts = {str(severity): sum(one.severity is severity for one in self.findings) for severity in _SEVERITIES}
        unread = [area for area in self.verdict.areas if area.state is State.NOT_CHECKED]
        return {
            "type": "doctor",
            "schema": SCHEMA,
            "class": str(self.verdict.cls),
            "headline": self.verdict.headline,
            "areas": [area.as_json() for area in self.verdict.areas],
            "assumed": [one.as_json() for one in self.assumed],
            "not_checked": [{"area": str(area.area), "reason": area.reason} for area in unread],
            "next": self.next,
            "broker_version": self.release,
            "version_because": self.because,
            "mode": str(self.outcome.mode),
            "starts": self.starts,
            "unknown": self.outcome.unknown,
            "blockers": [
                {"code": reason.code, "file": reason.file, "message": reason.message, "log": list(reason.log)} for reason in self.reasons
            ],
            "verdict": self.sentence,
            "log": list(self.log),
            "lost": {
                "messages": self.loss.messages,
                "bytes": self.loss.bytes,
                "uncounted_files": self.loss.uncounted_files,
                "uncounted_bytes": self.loss.uncounted_bytes,
            },
            "bytes_scanned": self.bytes_scanned,
            "log_ranges": [one.as_json() for one in self.log_ranges],
            "severities": counts,
        }


def diagnose(store: Store, asked_release: str, commands: Commands) -> Diagnosis:
    """Diagnose a whole store. Raises UsageError for a part of one and for an unknown release, UnreadableError for the root."""
    if store.only is not None:
        raise UsageError(
            f"{store.root} is only the part {store.only} of a store.",
            "Name the storePathRootDir, which contains abort, commitlog and config.",
        )
    with skipping_denied():
        # Listings made here are incomplete, and other readers must not get them.
        store = store.reopened()
        try:
            return _confirmed(store, asked_release, commands)
        except UsageError:
            raise
        except (RmqstoreError, OSError) as error:
            return _ended(store, asked_release, commands, error)


def _confirmed(store: Store, asked_release: str, commands: Commands) -> Diagnosis:
    """Diagnose a store; if it is written to meanwhile, every look must find the loss: parts are read one after the other.

    From the second look on, of the findings before the end of the log only those count that the look before had as well.
    """
    began, looks = time.monotonic(), 1
    sighted: Sequence[Finding] | None = None
    while looks < _LOOKS or time.monotonic() < began + _LOOKING:
        looks += 1
        before = mark_of(store)
        with listing_once():
            found = _diagnose(store, asked_release, commands, before, sighted)
        loses = any(effect.state is State.LOSES and effect.harm is not Harm.UNREACHABLE for effect in found.verdict.effects)
        store, sighted = store.reopened(), found.findings
        if not loses or before is None or not is_written(store, before, found.findings):
            return found
    with listing_once():
        return _diagnose(store, asked_release, commands, mark_of(store), sighted)


def _ended(store: Store, asked_release: str, commands: Commands, error: RmqstoreError | OSError) -> Diagnosis:
    """Return the diagnosis where a directory cannot be listed, so that what decides a start is unknown."""
    context = Context(store, Options(threads=1))
    found = [unreadable(context, error), *_guarded(context, lambda: surroundings.check(context))]
    chosen = Chosen(PROFILES[-1].until if asked_release == AUTO else asked_release, "no sign narrows it down")
    outcome = unknown_outcome(store, chosen.release, found[0].message)
    effects = [Effect(area, State.NOT_CHECKED, found[0].message) for area in Area]
    stopped = read_transactions(store.root).stopped
    commands = replace(commands, repairs=False, resume_commands=() if stopped is None else stopped.resume_commands)
    ordered = tuple(_with_next(commands, finding) for finding in sorted(found, key=_danger))
    verdict = conclude(effects, ordered, starts=None, unfinished=None if stopped is None else stopped.message)
    return Diagnosis(
        release=chosen.release,
        because=chosen.because,
        outcome=outcome,
        starts=None,
        reasons=(),
        loss=Loss(),
        verdict=verdict,
        sentence=sentence(verdict, outcome, starts=None, reason=found[0].message),
        assumed=(),
        log=(),
        findings=ordered,
        next=the_next_step(commands, verdict, ordered),
        bytes_scanned=0,
    )


def _diagnose(
    store: Store, asked_release: str, commands: Commands, before: Mark | None, sighted: Sequence[Finding] | None = None
) -> Diagnosis:
    """Diagnose a store once. `before`: how far it was written; `sighted`: the findings of the look before, None for the first look."""
    context = Context(store, Options(threads=1))
    seen = observe(context, asked_release)
    outcome, files = seen.outcome, seen.files
    queues, batch_queues = _queues(store.queue_directories()), _queues(store.batch_queue_directories())
    scanned = read_range(context, outcome.scan, queues)
    context.log = _facts(seen, scanned)
    sample = read_sample(context, outcome.scan.stop_offset if outcome.scan is not None else context.log.end_offset)
    run = LastRun(context, broker_runs=running(seen.liveness))
    files = with_evidence(files, context, run, seen.writer, (queue.last_position for queue in sample.queues.values()))
    loss = _loss(store, outcome, scanned)
    consumed = consumed_topics(store, files.texts)
    harm = consequences_of(store, outcome)
    prediction = Prediction(context, outcome, harm, loss, scanned, sample, consumed, queues, batch_queues)
    reasons = tuple(_reasons(store, seen, files))
    starts = False if reasons else outcome.starts
    found = [*seen.findings, *(_no_start(context, reason) for reason in reasons), *scanned.findings, *prediction.findings()]
    found += _checks(context, seen)
    found += _abort_gone(context, outcome, found)
    found += _empty_volumes(context, found)
    effects = [_stopping(store, reason) for reason in reasons]
    written = before is not None and is_written(store.reopened(), before, ())
    for one in _all(context, seen, prediction, files, run, written=written):
        effects.append(one) if isinstance(one, Effect) else found.append(one)
    effects = only_known([*effects, *space.effects(store, found)], seen.denied, outcome)
    if before is not None and (written or is_written(store.reopened(), before, ())):
        horizon = Horizon(before.log_end, before, before)
        found = list(horizon.remaining(found if sighted is None else sighted, found))
    findings = weighed(without_guesses(store, found, seen.denied), effects, prediction, files)
    stopped = seen.transactions.stopped
    commands = replace(commands, repairs=may_repair(findings), resume_commands=() if stopped is None else stopped.resume_commands)
    ordered = tuple(_with_next(commands, finding) for finding in sorted(findings, key=_danger))
    verdict = conclude(effects, ordered, starts=starts, unfinished=None if stopped is None else stopped.message)
    words = sentence(verdict, outcome, starts=starts, reason=reasons[0].line if reasons else None)
    with skipping_denied(files=bool(seen.denied)):
        places = places_of(store)
    if stopped is not None:
        words = f"{stopped.message}: continue it or undo it before a broker starts. As it is, {words}"
    return Diagnosis(
        release=seen.chosen.release,
        because=seen.chosen.because,
        outcome=outcome,
        starts=starts,
        reasons=reasons,
        loss=loss,
        verdict=verdict,
        sentence=words,
        assumed=assumptions(
            store, places, seen.chosen.release, seen.chosen.because, asked=asked_release != AUTO, configured=files.whole_broker
        ),
        log=tuple(_log(outcome, prediction, reasons)),
        findings=ordered,
        next=the_next_step(commands, verdict, ordered),
        bytes_scanned=scanned.bytes,
        log_ranges=log_ranges(prediction, ordered),
    )


def _all(
    context: Context, seen: Observed, prediction: Prediction, files: ConfigFiles, run: LastRun, *, written: bool
) -> Iterator[Effect | Finding]:
    """Yield what the start does to every area, as effects and findings; what cannot be read becomes a finding."""
    profile = profile_of(seen.chosen.release)
    known = frozenset((queue.topic, queue.queue_id) for queue in prediction.lagging)
    topics = frozenset(name.rpartition("/")[0] for name in prediction.after)
    due = Due(context, files, profile, topics, run)
    checks: tuple[Callable[[], Iterator[Effect | Finding]], ...] = (
        lambda: effects_of(prediction),
        lambda: progress.check(context, files, due, prediction.after, known),
        lambda: forgotten.check(context, files, prediction.after),
        lambda: otherparts.check(context, files, due, run, prediction.after, profile),
        lambda: check_tiered_storage(context),
        lambda: removed.check(prediction, files, run),
        lambda: timerstart.check(context) if profile.newer_parts else iter(()),
        lambda: contents.check(prediction, written=written),
    )
    for check in checks:
        yield from _guarded(context, check)


def _stopping(store: Store, reason: Reason) -> Effect:
    finding = Finding("RMQ-ST-NO-START", Severity.ERROR, reason.message, file=reason.file)
    area = Area.MACHINE if reason.code == IN_USE else area_of(finding)
    text = reason.message.replace(f"{store.root}/", "")
    if reason.file is not None and reason.code != CONFIGURATION:
        text = f"{reason.file}: {text.removeprefix(reason.file).strip()}"
    elif reason.file is not None and " and " in text:
        text = f"{Path(reason.file).name} and its .bak are damaged"
    return Effect(area, State.STOPS, text)


def _queues(listed: Iterator[QueueDirectory]) -> dict[QueueKey, QueueDirectory]:
    return {(queue.topic, queue.queue_id): queue for queue in listed}


def _facts(seen: Observed, scanned: ScanRange) -> LogFacts:
    log = seen.log
    if log is None:
        return LogFacts(end_offset=scanned.end_offset, last_timestamp=scanned.last_timestamp)
    return LogFacts(
        min_offset=log.min_offset,
        end_offset=max(log.end_offset or 0, scanned.end_offset),
        first_timestamp=log.first_store_timestamp or 0,
        last_timestamp=max(log.last_store_timestamp or 0, scanned.last_timestamp),
    )


def _loss(store: Store, outcome: Outcome, scanned: ScanRange) -> Loss:
    if outcome.scan is None or store.dledger is not None:
        return Loss()
    loss = losses_after(store.commitlog.files, outcome.scan.stop_offset, scanned.unread, scanned.bytes)
    return Loss() if loss.anything and goes_on(store, outcome.release, outcome.scan) else loss


# Reasons not to start


def _reasons(store: Store, seen: Observed, files: ConfigFiles) -> Iterator[Reason]:
    """Yield reasons in the order in which the broker meets them: configuration, message store, its lock, then what is loaded after it."""
    stopping = list(configuration.stopping_files(store, profile_of(seen.outcome.release)))
    for file in stopping:
        if file.before_store:
            yield Reason(CONFIGURATION, store.relative(file.path), file.why, (file.line,), before_store=True)
    topics_known = all(file.path.name != TOPICS for file in stopping)
    for blocker in seen.outcome.blockers:
        if blocker.code is BlockerCode.QUEUE_TYPE and not topics_known:
            continue  # reported for the file that cannot be read
        path = None if blocker.file is None else store.relative(blocker.file)
        message = blocker.message
        lost = files.lost(TOPICS) if blocker.code is BlockerCode.QUEUE_TYPE else None
        if lost is not None:
            path, message = store.relative(store.config_path / TOPICS), f"it is {lost}, and there are batch queues; {message}"
        yield Reason(str(blocker.code), path, message, lines_of(store, blocker))
    holder = seen.liveness.lock_holder
    if holder is not None:
        message = f"process {holder} holds the lock; a second broker recovers the live store first and fails only then"
        yield Reason(IN_USE, store.relative(store.lock_path), message, ("java.lang.RuntimeException: Lock failed,MQ already started",))
    for file in stopping:
        if not file.before_store:
            yield Reason(CONFIGURATION, store.relative(file.path), file.why, (file.line,))


def _no_start(context: Context, reason: Reason) -> Finding:
    return context.finding("RMQ-ST-NO-START", f"{reason.message}; the log says: {' | '.join(reason.log)}", file=reason.file)


def _log(outcome: Outcome, prediction: Prediction, reasons: tuple[Reason, ...]) -> Iterator[str]:
    """Yield lines of the broker's log that identify this start. It ends at the first reason that comes before the store."""
    if reasons and reasons[0].before_store:
        yield from reasons[0].log
        return
    yield f"last shutdown {'abnormally' if outcome.mode is Mode.ABNORMAL else 'normally'}"
    if prediction.deletes_queues:
        yield "The commitlog files are deleted, and delete the consume queue files"
    stopped_in = outcome.scan and prediction.context.place(outcome.scan.stop_offset)[0]
    if prediction.cuts_log and stopped_in:
        yield f"recover physics file end, {prediction.context.store.root / stopped_in}"
    for reason in reasons:
        yield from reason.log


# Further checks


def _checks(context: Context, seen: Observed) -> list[Finding]:
    profile = profile_of(seen.chosen.release)
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        lambda: transactions.check(context),
        lambda: contradicted(context),
        lambda: files.check(context),
        lambda: surroundings.check(context),
        lambda: checkpoint.check(context),
        lambda: config.check(context),
        lambda: configcontent.check(context),
        lambda: confignames.check(context),
        lambda: configbackups.check(context),
        lambda: rocksdb.check_start(context),
        lambda: compaction.check(context) if profile.compaction else iter(()),
        lambda: space.check(context),
        lambda: traps.check(traps.Start(context, seen.writer, seen.outcome)) if seen.writer is not None else iter(()),
    )
    return [finding for check in checks for finding in _guarded(context, check)]


def _guarded(context: Context, check: Callable[[], Iterator[_Found]]) -> Iterator[_Found | Finding]:
    try:
        yield from check()
    except RmqstoreError as error:
        yield unreadable(context, error)
    except OSError as error:
        text = f"{error.filename or 'a file'} cannot be read: {error.strerror}"
        yield context.finding("RMQ-ST-UNREADABLE", text, file=None if error.filename is None else Path(error.filename))


def _abort_gone(context: Context, outcome: Outcome, found: list[Finding]) -> list[Finding]:
    """Return a finding where `abort` is missing but the log ends as a crash leaves it."""
    signs = {"RMQ-CL-PREALLOC": "a pre-allocated file", "RMQ-CL-TORN": "a record that is only partly written"}
    seen = next((finding for finding in found if finding.code in signs), None)
    if outcome.mode is Mode.ABNORMAL or seen is None:
        return []
    text = f"there is no abort, but {signs[seen.code]} at the end of the log, as only a crash leaves it: was abort removed by hand?"
    return [context.finding("RMQ-ST-ABORT-GONE", text, file=context.store.abort_path)]


def _empty_volumes(context: Context, found: list[Finding]) -> list[Finding]:
    """Return a finding for each empty configured directory of a log that lacks files: its volume may not be mounted."""
    directories = log_directories(context.store)
    if len(directories) < 2 or not any(finding.code in _OF_A_MISSING_FILE for finding in found):
        return []
    empty = [path for path in directories if path.is_dir() and not list_directory(path)]
    text = "the commit log directory {} is empty, and files are missing from the log: is its volume mounted?"
    return [context.finding("RMQ-ST-PATH", text.format(path), file=path) for path in empty]


# Order and advice


def _danger(finding: Finding) -> tuple[int, int, int]:
    first = _MOST_DANGEROUS.index(finding.code) if finding.code in _MOST_DANGEROUS else len(_MOST_DANGEROUS)
    part = finding.code.split("-")[1]
    return first, _SEVERITIES.index(finding.severity), _PARTS.index(part) if part in _PARTS else len(_PARTS)


def _with_next(commands: Commands, finding: Finding) -> Finding:
    advice = f"Next: {next_step(commands, finding)}"
    return replace(finding, mend=f"{finding.mend} {advice}" if finding.mend else advice)
