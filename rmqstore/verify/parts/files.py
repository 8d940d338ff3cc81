"""Names and lengths of the files of log, queues, index and timer log, which decide whether a broker loads them at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rmqstore.findings import Finding
from rmqstore.formats import batchconsumequeue, consumequeue, index
from rmqstore.formats.checkpoint import parse_checkpoint
from rmqstore.store.brokerconf import BrokerConfig
from rmqstore.store.mapped import MappedFileQueue, Problem, ProblemKind, infer_file_size, parse_offset_name
from rmqstore.store.parts import PartKind
from rmqstore.store.root import IndexFile, QueueDirectory, Store
from rmqstore.store.window import read_whole
from rmqstore.verify.context import Context
from rmqstore.verify.guard import guarded, limited

_BORDERS = (ProblemKind.GAP, ProblemKind.OVERLAP, ProblemKind.MISALIGNED_NAME)
_NAMES = (ProblemKind.FOREIGN_NAME, ProblemKind.DIRECTORY, ProblemKind.DUPLICATE_NAME)


@dataclass(frozen=True, slots=True)
class _Kind:
    """Codes of one kind of mapped file queue, and the name of one of its files in messages."""

    name: str
    codes: Mapping[ProblemKind, str]
    unit: int = 1


LOG = _Kind(
    "commit log file",
    {
        ProblemKind.GAP: "RMQ-CL-GAP",
        ProblemKind.OVERLAP: "RMQ-CL-OVERLAP",
        ProblemKind.DUPLICATE_NAME: "RMQ-CL-OVERLAP",
        ProblemKind.WRONG_LENGTH: "RMQ-CL-FILELEN",
        ProblemKind.ZERO_LENGTH: "RMQ-CL-ZEROLEN",
        ProblemKind.FOREIGN_NAME: "RMQ-CL-NAME",
        ProblemKind.DIRECTORY: "RMQ-ST-FOREIGN",
        ProblemKind.MISALIGNED_NAME: "RMQ-CL-NAME",
    },
)
_QUEUE_CODES = {
    ProblemKind.GAP: "RMQ-CQ-GAP",
    ProblemKind.OVERLAP: "RMQ-CQ-NAME",
    ProblemKind.DUPLICATE_NAME: "RMQ-CQ-NAME",
    ProblemKind.WRONG_LENGTH: "RMQ-CQ-FILELEN",
    ProblemKind.ZERO_LENGTH: "RMQ-CQ-ZEROLEN",
    ProblemKind.FOREIGN_NAME: "RMQ-CQ-NAME",
    ProblemKind.DIRECTORY: "RMQ-CQ-NAME",
    ProblemKind.MISALIGNED_NAME: "RMQ-CQ-NAME",
}
QUEUES = {
    PartKind.CONSUMEQUEUE: _Kind("consume queue file", _QUEUE_CODES, consumequeue.UNIT_SIZE),
    PartKind.BATCHCONSUMEQUEUE: _Kind("batch consume queue file", _QUEUE_CODES, batchconsumequeue.UNIT_SIZE),
    PartKind.CONSUMEQUEUE_EXT: _Kind("consume queue extension file", _QUEUE_CODES),
}
TIMERLOG = _Kind(
    "timer log file",
    {
        ProblemKind.GAP: "RMQ-TM-LOG-FILELEN",
        ProblemKind.OVERLAP: "RMQ-TM-LOG-FILELEN",
        ProblemKind.DUPLICATE_NAME: "RMQ-TM-LOG-FILELEN",
        ProblemKind.WRONG_LENGTH: "RMQ-TM-LOG-FILELEN",
        ProblemKind.ZERO_LENGTH: "RMQ-TM-LOG-ZEROLEN",
        ProblemKind.FOREIGN_NAME: "RMQ-ST-FOREIGN",
        ProblemKind.DIRECTORY: "RMQ-ST-FOREIGN",
        ProblemKind.MISALIGNED_NAME: "RMQ-TM-LOG-FILELEN",
    },
)


def check(context: Context) -> Iterator[Finding]:
    """Yield layout findings of the parts that are wanted. Lists directories; reads nothing of index files and the log."""
    store, wants = context.store, context.options.wants
    if wants("commitlog") and store.covers(PartKind.COMMITLOG):
        yield from guarded(context, store.path_of(PartKind.COMMITLOG), partial(_commit_log, context))
    if wants("consumequeue"):
        for kind in QUEUES:
            yield from guarded(context, store.path_of(kind), partial(_queues, context, kind))
    if wants("index"):
        yield from guarded(context, store.path_of(PartKind.INDEX), partial(_index, context))
    if wants("timer"):
        path = store.path_of(PartKind.TIMERLOG)
        yield from guarded(context, path, lambda: limited(context, path, _problems(context, TIMERLOG, store.timerlog)))


# Mapped file queues


def _problems(context: Context, kind: _Kind, queue: MappedFileQueue, **where: Any) -> Iterator[Finding]:
    last_name = queue.last_name
    for problem in _without_consequences(queue):
        found = None if problem.kind in _NAMES else problem.found
        detail = _detail(problem, problem.path.name == last_name)
        if problem.kind is ProblemKind.WRONG_LENGTH and all(file.length != problem.expected for file in queue.files):
            detail = f"{problem.found} bytes long, the setting (given or default) is {problem.expected}"
        message = f"{kind.name} {problem.path.name}: {detail}"
        place = _missing_range(problem) if kind is LOG and problem.kind is ProblemKind.GAP else {}
        yield context.finding(_code(kind, problem), message, file=problem.path, expected=problem.expected, found=found, **where, **place)


def _code(kind: _Kind, problem: Problem) -> str:
    """Return the code; a directory with the name of a file is where its data should be, any other one is merely unexpected."""
    in_place_of_file = problem.kind is ProblemKind.DIRECTORY and parse_offset_name(problem.path.name) is not None
    return "RMQ-ST-KIND" if in_place_of_file else kind.codes[problem.kind]


def _missing_range(problem: Problem) -> dict[str, int]:
    """Return the physical offsets that no file holds."""
    if problem.expected is None or problem.found is None:
        return {}
    return {"offset": problem.expected, "length": problem.found - problem.expected}


def _without_consequences(queue: MappedFileQueue) -> Iterator[Problem]:
    """Yield the problems of a queue. Where a setting contradicts most files, names are judged by the length that the files have."""
    inferred = infer_file_size(queue.files)
    setting_is_wrong = inferred != queue.file_size and 2 * sum(file.length == inferred for file in queue.files) > len(queue.files)
    if not setting_is_wrong:
        yield from _once(queue.problems())
        return
    yield from (problem for problem in queue.problems() if problem.kind not in _BORDERS)
    yield from (problem for problem in _once(replace(queue, file_size=inferred).problems()) if problem.kind in _BORDERS)


def _once(problems: Iterator[Problem]) -> Iterator[Problem]:
    """Yield problems once: a misaligned name makes a gap or an overlap with its neighbour, and one of the two is enough."""
    bordering: Path | None = None
    for problem in problems:
        if problem.kind in (ProblemKind.GAP, ProblemKind.OVERLAP):
            bordering = problem.path
        if problem.kind is not ProblemKind.MISALIGNED_NAME or problem.path != bordering:
            yield problem


def _detail(problem: Problem, sorts_last: bool) -> str:
    match problem.kind:
        case ProblemKind.ZERO_LENGTH if sorts_last:
            return "empty; it sorts last, so 5.1.3 and later delete it at load, earlier releases do not start"
        case ProblemKind.ZERO_LENGTH:
            return "empty, and not the last one: no release starts"
        case ProblemKind.DIRECTORY:
            return "a directory; 4.9.x does not start, later releases ignore it"
        case ProblemKind.FOREIGN_NAME if problem.found == 0 and sorts_last:
            return f"{problem.detail}; empty and last by name, so 5.1.3 and later delete it at load, earlier releases do not start"
        case ProblemKind.FOREIGN_NAME:
            return f"{problem.detail}; no release starts with such a file in this directory"
        case _:
            return problem.detail


# Commit log


def _commit_log(context: Context) -> Iterator[Finding]:
    store = context.store
    directories = store.commitlog_directories
    configured = (*directories.writable, *directories.read_only)
    yield from limited(context, configured[0], _problems(context, LOG, store.commitlog))
    if store.dledger is not None:
        yield from limited(context, store.dledger.directory, _problems(context, LOG, store.dledger.data))
    missing = [path for path in configured if not path.is_dir()]
    if missing and (len(configured) > 1 or store.config.explicit("storePathCommitLog") is not None):
        for path in missing:
            message = f"the configured commit log directory {path} does not exist; a broker creates an empty one"
            yield context.finding("RMQ-ST-PATH", message, file=path)
    if store.commitlog.files or store.only is not None or store.dledger is not None:
        return
    evidence = evidence_of_messages(context.store)
    state = "is missing" if len(missing) == len(configured) else "holds no file"
    if evidence is not None:
        yield context.finding("RMQ-CL-EMPTY", f"the commit log {state}, but {evidence}", file=configured[0])
    else:
        yield context.finding("RMQ-ST-EMPTY", f"the commit log {state}, and no queue holds anything", file=configured[0])


def evidence_of_messages(store: Store) -> str | None:
    """Return what shows that the store once held messages, None if nothing does. Raises UnreadableError."""
    for queue in (*store.queue_directories(), *store.batch_queue_directories()):
        if queue.files.files:
            return f"{store.relative(queue.directory)} holds queue files"
    for file in store.index_files():
        return f"{store.relative(file.path)} exists"
    if store.checkpoint_path.is_file() and parse_checkpoint(read_whole(store.checkpoint_path, 4096)).physic_msg_timestamp > 0:
        return "the checkpoint has times of messages"
    return None


# Queues


def _queues(context: Context, kind: PartKind) -> Iterator[Finding]:
    tree = context.store.path_of(kind)
    yield from limited(context, tree, _queue_problems(context, kind))
    yield from limited(context, tree, _strays(context, kind))


def _strays(context: Context, kind: PartKind) -> Iterator[Finding]:
    for stray in context.store.strays(kind):
        if stray.loaded:
            yield context.finding("RMQ-CQ-NAME", f"{stray.path.name}: {stray.reason}", file=stray.path)
        else:
            yield context.finding("RMQ-ST-FOREIGN", f"{stray.path.name}: {stray.reason}; every release ignores it", file=stray.path)


def _queue_problems(context: Context, kind: PartKind) -> Iterator[Finding]:
    layout = QUEUES[kind]
    uneven: QueueDirectory | None = None
    for queue in _directories(context, kind):
        if not context.options.wants_queue(queue.topic, queue.queue_id):
            continue
        yield from _problems(context, layout, queue.files, topic=queue.topic, queue_id=queue.queue_id)
        size = queue.files.file_size or 0
        if uneven is None and queue.files.files and size % layout.unit:
            uneven = queue
            message = f"{layout.name}s are {size} bytes long, which is no multiple of a unit ({layout.unit} bytes)"
            expected = size - size % layout.unit + layout.unit
            yield context.finding("RMQ-CQ-FILELEN", message, file=queue.files.files[0].path, expected=expected, found=size)


def _directories(context: Context, kind: PartKind) -> Iterator[QueueDirectory]:
    store = context.store
    if kind is PartKind.CONSUMEQUEUE:
        return store.queue_directories()
    return store.batch_queue_directories() if kind is PartKind.BATCHCONSUMEQUEUE else store.ext_queue_directories()


# Index


def _index(context: Context) -> Iterator[Finding]:
    store = context.store
    for obstacle in store.index_obstacles():
        name = obstacle.path.name
        if name.isascii() and name.isdigit():
            message = f"{name} is a {obstacle.found} with a number as name: 4.9.x loads no later index file, 5.x does not start"
            yield context.finding("RMQ-ST-KIND", message, file=obstacle.path, found=obstacle.found)
        else:
            yield context.finding("RMQ-IX-NAME", f"{name} is a {obstacle.found}, which no broker makes here", file=obstacle.path)
    files = store.index_files()
    for file in files:
        if not file.named_right:
            yield context.finding("RMQ-IX-NAME", f"{file.path.name} is no name of an index file (17 digits)", file=file.path)
    yield from _index_lengths(context, [file for file in files if file.named_right])


def _index_lengths(context: Context, files: list[IndexFile]) -> Iterator[Finding]:
    expected = index_file_length(context.store.config, [file.length for file in files])
    for file in files:
        if expected is not None and file.length != expected:
            message = f"index file {file.path.name} is {file.length} bytes long instead of {expected}"
            yield context.finding("RMQ-IX-FILELEN", message, file=file.path, expected=expected, found=file.length)
        elif not _possible(file.length):
            message = f"index file {file.path.name} is {file.length} bytes long, which no numbers of slots and items give"
            yield context.finding("RMQ-IX-FILELEN", message, file=file.path, found=file.length)


def index_file_length(config: BrokerConfig, lengths: list[int]) -> int | None:
    """Return the bytes that each index file should have: by the settings, else by most files; None for a single file without settings."""
    slots, items = config.explicit_integer("maxHashSlotNum"), config.explicit_integer("maxIndexNum")
    if slots is not None or items is not None:
        return index.file_size(config.integer("maxHashSlotNum"), config.integer("maxIndexNum"))
    default = index.file_size(index.DEFAULT_HASH_SLOT_NUM, index.DEFAULT_INDEX_NUM)
    if default in lengths:
        return default
    counts = Counter(length for length in lengths if _possible(length))
    # Between equals the longer one: copies and crashes cut files but never extend them.
    return max(counts, key=lambda length: (counts[length], length)) if counts and len(lengths) > 1 else None


def _possible(length: int) -> bool:
    """Return whether 40 + 4 * slots + 20 * entries gives this length with at least one slot and two places of entries."""
    return length >= index.file_size(1, 2) and (length - index.HEADER_SIZE) % index.SLOT_SIZE == 0
