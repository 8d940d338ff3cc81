"""What was predicted otherwise than it came, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rmqstore.prediction.outcome import Dispatched, Outcome, State
from rmqstore.versions import profile_of
from tests.prediction.recorded_cases import Case

Difference = tuple[str, Any, Any]
"""Field, what the broker did, what was predicted."""

# Files whose names or bytes hang on the clock, the process or RocksDB.
_VOLATILE = ("rocksdbstore/", "consumequeue_rocksdb/")


def differences(case: Case, outcome: Outcome, paths: set[str]) -> Iterator[Difference]:
    """What was predicted otherwise than it came. `paths`: everything that was in the store before the start."""
    s1 = case["S1"]
    # The broker loads queues in the order of the directory, so how far it came before a bad one is not to be known.
    whole = not any(blocker.file is not None and "consumequeue" in blocker.file.parts for blocker in outcome.blockers)
    yield from _compare("loadOk", case["loadOk"], outcome.load_ok)
    if outcome.dispatched_in_load is not None:
        yield from _compare("dispatchedInLoad", _dispatched(case["dispatchedInLoad"]), _counted(outcome.dispatched_in_load))
    yield from _states("S1", s1, outcome.after_load, whole)
    starts = bool(case["loadOk"] and case.get("startOk"))
    yield from _compare("starts", starts, outcome.starts)
    if "S2" in case and outcome.after_start is not None:
        if outcome.unknown is None or outcome.dispatched_after_start is not None:
            yield from _compare("dispatchedAfterStart", _dispatched(case["dispatchedAfterStart"]), _counted(outcome.dispatched_after_start))
        yield from _states("S2", {**s1, **case["S2"]}, outcome.after_start, whole)
        if case.get("startOk") and (outcome.unknown is None or outcome.caught_up is not None):
            yield from _compare("caughtUp", case["caughtUp"], outcome.caught_up)
    if outcome.unknown is None or outcome.abort_after_stop is not None:
        yield from _compare("abortAfterStop", case["abortAfterStop"], outcome.abort_after_stop)
    yield from _checkpoint(case["checkpointAfter"], outcome.checkpoint_after)
    yield from _changes(case["changed"], outcome, paths)


def _checkpoint(true: list[int] | None, predicted: tuple[int | None, ...] | None) -> Iterator[Difference]:
    if true is None or predicted is None:
        yield from _compare("checkpointAfter", true, predicted)
        return
    for number, (left, right) in enumerate(zip(true, predicted, strict=True)):
        if right is not None:
            yield from _compare(f"checkpointAfter@{8 * number}", left, right)


def _changes(true: dict[str, Any], outcome: Outcome, paths: set[str]) -> Iterator[Difference]:
    seen = {}
    for name, value in true.items():
        if not _named_by_clock(name, paths):
            seen[name] = value if value != "written" else "modified" if name in paths else "created"
    predicted = {name: str(change) for name, change in outcome.changes.items()}
    for name in sorted(seen.keys() | predicted.keys()):
        if name not in ("abort", "abort.bak") and not name.startswith(_VOLATILE) and not _unknown(name, outcome):
            if seen.get(name) != predicted.get(name):
                yield f"changed:{name.split('/')[0]}", (name, seen.get(name)), (name, predicted.get(name))


def _unknown(name: str, outcome: Outcome) -> bool:
    if name.startswith("config/") and not profile_of(outcome.release).saves_schedule_at_stop and outcome.release.startswith("4."):
        return True  # a thread writes it, 10 seconds after the start
    """Whether the prediction says nothing about the path: where something is unknown, only certain changes are told."""
    return outcome.unknown is not None and (name not in outcome.changes or name.startswith(("consumequeue/", "index/")))


def _named_by_clock(name: str, paths: set[str]) -> bool:
    return name.startswith("index/") and name != "index/" and name not in paths


def _states(label: str, true: dict[str, Any], state: State, whole: bool) -> Iterator[Difference]:
    plain = {
        "minPhyOffset": state.min_phy_offset,
        "maxPhyOffset": state.max_phy_offset,
        "flushedWhere": state.flushed_where,
        "confirmOffset": state.confirm_offset,
        "confirmField": state.confirm_field,
        "reputFromOffset": state.reput_from_offset,
        "dispatchBehindBytes": state.dispatch_behind_bytes,
    }
    for name, value in plain.items():
        if value is not None:
            yield from _compare(f"{label}.{name}", true[name], value)
    if state.commitlog_files is not None:
        yield from _compare(f"{label}.files", [entry[:2] for entry in true["files"]], [list(entry) for entry in state.commitlog_files])
    if whole and state.queues is not None:
        queues = {
            name: [queue.min_offset, queue.max_offset, queue.max_physic_offset, queue.min_logic_offset, queue.files]
            for name, queue in state.queues.items()
            if queue.files or queue.max_offset or queue.min_offset
        }
        for name in sorted(true["queues"].keys() | queues.keys()):
            yield from _compare(f"{label}.queues", (name, true["queues"].get(name)), (name, queues.get(name)))
    if whole and state.next_offsets is not None:
        merged = {key: value for table in true["next"].values() for key, value in table.items()}
        yield from _compare(f"{label}.next", merged, {key: value for key, value in state.next_offsets.items() if value})
    if state.index_files is None:
        return
    index = [
        [
            file.name,
            file.begin_timestamp,
            file.end_timestamp,
            file.begin_phy_offset,
            file.end_phy_offset,
            file.hash_slot_count,
            file.index_count,
        ]
        for file in state.index_files
    ]
    named = {file.name for file in state.index_files}
    yield from _compare(f"{label}.index", [[row[0] if row[0] in named else None, *row[1:]] for row in true["index"]], index)


def _dispatched(phase: dict[str, Any]) -> tuple[Any, ...]:
    return phase["count"], phase.get("first"), phase.get("last"), phase.get("lastSize")


def _counted(dispatched: Dispatched | None) -> tuple[Any, ...]:
    if dispatched is None:
        return ()
    return dispatched.count, dispatched.first, dispatched.last, dispatched.last_size


def _compare(name: str, true: Any, predicted: Any) -> Iterator[Difference]:
    if true != predicted:
        yield name, true, predicted
