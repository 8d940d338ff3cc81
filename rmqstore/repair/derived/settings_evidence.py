"""Evidence on rebuilt files: lengths and types that no record of the log says, and what each of them is taken from.

The order of evidence: the broker's settings (--broker-conf, --set), the files that are there, settings and files of earlier transactions
in `.rmqstore`, copies beside the part (`consumequeue.bak`). Without any of them it is the broker's default, and the plan says so, because a
broker with another setting does not start on such files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from rmqstore.errors import RmqstoreError
from rmqstore.formats import batchconsumequeue, consumequeue, consumequeue_ext, index
from rmqstore.formats.naming import LMQ_PREFIX
from rmqstore.prediction.options import Options
from rmqstore.prediction.places import places_of
from rmqstore.rebuild.settings import Settings
from rmqstore.repair.files.beneath import is_directory, is_file
from rmqstore.repair.transaction.folder import transactions
from rmqstore.scan.indexshape import geometry, guess_geometry
from rmqstore.store.brokerconf import BrokerConfig
from rmqstore.store.kinds.recognise import is_index_name
from rmqstore.store.mapped import MappedFile, list_directory, parse_offset_name
from rmqstore.store.parts import PartKind, part_kind
from rmqstore.store.root import QueueDirectory, Store
from rmqstore.verify.parts import config

LIGHT_QUEUES = "%LMQ%"
_LOG_KEY = "mappedFileSizeCommitLog"
_MOST_FILES = 10_000
_LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Evidence:
    """The `settings` to rebuild with; `notes` by part (`consumequeue`, …, or LIGHT_QUEUES): a sentence on a setting that is not given, and
    that no file of the part says."""

    settings: Settings
    notes: Mapping[str, str] = field(default_factory=dict)

    def notes_on(self, parts: set[str]) -> list[str]:
        """Return the sentences on these parts."""
        return [note for part, note in self.notes.items() if part in parts]


@dataclass(frozen=True, slots=True)
class _Length:
    """A setting that is the length of the files of a part: its key, a unit in bytes, the broker's default, the queues that are there."""

    key: str
    part: PartKind
    unit: int
    default: int
    queues: Callable[[Store], Iterator[QueueDirectory]]


_LENGTHS = (
    _Length(
        "mappedFileSizeConsumeQueue",
        PartKind.CONSUMEQUEUE,
        consumequeue.UNIT_SIZE,
        consumequeue.DEFAULT_FILE_SIZE,
        Store.queue_directories,
    ),
    _Length(
        "mapperFileSizeBatchConsumeQueue",
        PartKind.BATCHCONSUMEQUEUE,
        batchconsumequeue.UNIT_SIZE,
        batchconsumequeue.DEFAULT_FILE_SIZE,
        Store.batch_queue_directories,
    ),
    _Length(
        "mappedFileSizeConsumeQueueExt",
        PartKind.CONSUMEQUEUE_EXT,
        1,
        consumequeue_ext.DEFAULT_FILE_SIZE,
        Store.ext_queue_directories,
    ),
)


def settings_of(store: Store) -> Settings:
    """Return what the broker was configured to write, as far as there is evidence. Raises UnreadableError."""
    return evidence_of(store).settings


def evidence_of(store: Store) -> Evidence:
    """Return the same with a sentence for each value neither given nor taken from a file of the part itself. Raises UnreadableError."""
    options, places = Options.of(store.config), places_of(store)
    notes: dict[str, str] = {}
    found = {
        PartKind.CONSUMEQUEUE: places.queues.simple_file_size,
        PartKind.BATCHCONSUMEQUEUE: places.queues.batch_file_size,
        PartKind.CONSUMEQUEUE_EXT: places.queues.ext_file_size,
    }
    for length in _LENGTHS:
        if store.config.explicit_integer(length.key) is None and not any(queue.files.files for queue in length.queues(store)):
            found[length.part], notes[length.part] = _length(store, length)
    slots, items = places.index_slots, places.index_items
    if not _has_geometry(store):
        (slots, items), notes[PartKind.INDEX] = _geometry(store, (slots, items))
    lights = light_queues(store)
    if lights is not None and not all(store.config.explicit(name) for name in ("enableLmq", "enableMultiDispatch")):
        notes[LIGHT_QUEUES] = (
            f"{lights}, so enableLmq and enableMultiDispatch are assumed to be on; if they are not, give "
            "--set enableLmq=false --set enableMultiDispatch=false."
        )

    def flag(name: str, value: bool, sign: bool) -> bool:
        return value if store.config.explicit(name) is not None else value or sign

    settings = Settings(
        mapped_file_size_consume_queue=found[PartKind.CONSUMEQUEUE],
        mapper_file_size_batch_consume_queue=found[PartKind.BATCHCONSUMEQUEUE],
        mapped_file_size_consume_queue_ext=found[PartKind.CONSUMEQUEUE_EXT],
        batch_topics=places.queues.batch_topics | _batch_topics_by_files(store),
        enable_consume_queue_ext=flag(
            "enableConsumeQueueExt", options.enable_consume_queue_ext, store.path_of(PartKind.CONSUMEQUEUE_EXT).is_dir()
        ),
        enable_lmq=flag("enableLmq", options.enable_lmq, lights is not None),
        enable_multi_dispatch=flag("enableMultiDispatch", options.enable_multi_dispatch, lights is not None),
        message_index_enable=options.message_index_enable,
        index_file_write_enable=options.index_file_write_enable,
        max_hash_slot_num=slots,
        max_index_num=items,
    )
    return Evidence(settings, notes)


def _batch_topics_by_files(store: Store) -> frozenset[str]:
    """Return the topics that have files of batch queues only: whatever the configuration says, a broker loads them as batch queues."""
    batch = {queue.topic for queue in store.batch_queue_directories() if queue.files.files}
    return frozenset(topic for topic in batch if not any(queue.files.files for queue in store.queue_directories(topic)))


def note_on_log(store: Store) -> str | None:
    """Return a note on the length of log files where a single file, which may have been cut, is the evidence for it; else None."""
    files, default = store.commitlog.files, BrokerConfig().integer(_LOG_KEY)
    if store.config.commit_log_file_size is not None or len(files) != 1 or files[0].length == default:
        return None
    earlier = next(_earlier_lengths(store, PartKind.COMMITLOG, _LOG_KEY, 1), None)
    if earlier is not None and earlier[0] == files[0].length:
        return None
    known = "" if earlier is None else f"; an earlier transaction had {earlier[0]}"
    return (
        f"The log has one file, and {_LOG_KEY} is not given: its length of {files[0].length} bytes is used{known}. "
        f"If the file was cut, restore its full length, or the broker does not start; --set {_LOG_KEY}=BYTES sets that length."
    )


def light_queues(store: Store) -> str | None:
    """Return the evidence that the broker filled queues of %LMQ% topics, as the beginning of a sentence; None for nothing."""
    if any(queue.topic.startswith(LMQ_PREFIX) for queue in store.queue_directories()):
        return "There are queues of %LMQ% topics"
    for name in (config.LMQ_OFFSETS, config.CONSUMER_OFFSETS):
        text = config.in_use(*config.read_both(store.config_path / name))
        if any(topic.startswith(LMQ_PREFIX) for topic in config.topics_of_offsets(text)):
            return f"The file config/{name} has offsets in %LMQ% topics"
    return None


# Lengths


def _length(store: Store, length: _Length) -> tuple[int, str]:
    """Return the length of the files of a part of which there is none, and a note on it."""
    what = f"There is no file of {length.part}, and {length.key} is not given"
    advice = f"if the broker has another value, it does not start: give --broker-conf FILE or --set {length.key}=BYTES"
    for size, directory in _earlier_lengths(store, length.part, length.key, length.unit):
        return size, f"{what}: {size} bytes, from {store.relative(directory)}; {advice}."
    return length.default, f"{what}: new files have the default length of {length.default} bytes; {advice}."


def _earlier_lengths(store: Store, part: PartKind, key: str, unit: int) -> Iterator[tuple[int, Path]]:
    """Yield lengths that files of a part had, and the paths that say so, newest first."""
    for path, said in _earlier(store, part, key):
        size = said or _common_length(path, unit)
        if size is not None:
            yield size, path


def _earlier(store: Store, part: PartKind, key: str) -> Iterator[tuple[Path, int | None]]:
    """Yield other places of files of a part, newest first; of an earlier plan the setting that it was given."""
    for transaction in reversed(transactions(store.root)):
        try:
            given = transaction.plan.settings.get(key, "")
        except RmqstoreError:
            given = ""
        if given.isascii() and given.isdigit() and 0 < int(given) <= _LARGEST:
            yield transaction.plan_path, int(given)
        yield transaction.quarantine / part, None
    for entry in list_directory(store.root):
        path = Path(entry.path)
        if entry.name.startswith(part) and part_kind(entry.name) is None and is_directory(path):
            yield path, None


def _common_length(directory: Path, unit: int) -> int | None:
    """Return the length that most files named by offset below a directory have, None where none can be right."""
    lengths: Counter[int] = Counter()
    for path in islice(_files(directory), _MOST_FILES):
        start, size = parse_offset_name(path.name), path.lstat().st_size
        if start is not None and 0 < size <= _LARGEST and size % unit == 0 and start % size == 0:
            lengths[size] += 1
    return max(lengths, key=lambda size: (lengths[size], size), default=None)


def _files(directory: Path) -> Iterator[Path]:
    """Yield the regular files below a directory; links are not followed."""
    for entry in list_directory(directory) if is_directory(directory) else ():
        path = Path(entry.path)
        if is_directory(path):
            yield from _files(path)
        elif is_file(path):
            yield path


# Index files


def _has_geometry(store: Store) -> bool:
    """Return whether the numbers of slots and items are given, or an index file that is there has them."""
    given = [store.config.explicit_integer(key) for key in ("maxHashSlotNum", "maxIndexNum")]
    files = [file for file in store.index_files() if file.named_right and file.length >= index.HEADER_SIZE]
    mapped = [file.mapped for file in files]
    return None not in given or any(geometry(store.config, file.length) for file in mapped) or guess_geometry(mapped) is not None


def _geometry(store: Store, default: tuple[int, int]) -> tuple[tuple[int, int], str]:
    """Return slots and entries of index files of which there is none, and a note on them."""
    what = "No index file shows its numbers of slots and entries, and maxHashSlotNum and maxIndexNum are not both given"
    advice = "if the broker has other values, it misreads them: give --broker-conf FILE or --set maxHashSlotNum=N --set maxIndexNum=N"
    for directory, _ in _earlier(store, PartKind.INDEX, ""):
        files = [path for path in islice(_files(directory), _MOST_FILES) if is_index_name(path.name)]
        mapped = [MappedFile(path, int(path.name), path.stat().st_size, 0) for path in files if path.stat().st_size >= index.HEADER_SIZE]
        shapes = (geometry(store.config, file.length) for file in reversed(mapped))
        found = next((shape for shape in shapes if shape is not None), None) or guess_geometry(mapped)
        if found is not None:
            return found, f"{what}: {found[0]} and {found[1]}, from {store.relative(directory)}; {advice}."
    return default, f"{what}: new files have {default[0]} and {default[1]}, the defaults; {advice}."
