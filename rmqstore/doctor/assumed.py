"""The unstated assumptions of a verdict: lengths found from the files, the release, defaults of switches.

A length that was stated and that the files contradict is not assumed but wrong: the setting has to be changed, not the files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rmqstore.findings import Finding
from rmqstore.formats import consumequeue, index
from rmqstore.formats.compaction import log_file_size, queue_file_size
from rmqstore.prediction.places import Places
from rmqstore.scan.indexshape import guess_geometry
from rmqstore.store.brokerconf import DEFAULTS, BrokerConfig
from rmqstore.store.mapped import MappedFile, infer_file_size
from rmqstore.store.root import Store
from rmqstore.verify.context import Context

_SWITCHES = (
    *("storeType", "brokerRole", "flushDiskType", "messageIndexEnable", "enableConsumeQueueExt", "enableLmq", "enableMultiDispatch"),
    *("duplicationEnable", "enableControllerMode", "enableDLegerCommitLog", "timerWheelEnable", "enableCompaction", "checkCRCOnRecover"),
)
_SLOTS, _ITEMS = "maxHashSlotNum", "maxIndexNum"
_COMPACTED, _COMPACTED_QUEUE = "compactionMappedFileSize", "compactionCqMappedFileSize"
DEFAULT = "the broker's default"
_ROUND = 4096
NOT_CONFIGURED = "none of its files exists; taken for a message store alone, without topics, groups and consumers"
NOT_STARTING = "with the default this broker would not start"


@dataclass(frozen=True, slots=True)
class Assumed:
    """A setting, or the release, that was not stated, the value that was taken, and where it comes from."""

    name: str
    value: str | int | bool
    source: str

    def as_json(self) -> dict[str, Any]:
        """Return the object in `assumed` of `doctor --format json`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Length:
    """The length of the files of one part: its setting, the length that the start uses, and the files."""

    key: str
    value: int
    files: tuple[MappedFile, ...]


def assumptions(store: Store, places: Places, release: str, because: str, *, asked: bool, configured: bool) -> tuple[Assumed, ...]:
    """Return the assumptions, lengths first. `asked`: whether the release was stated; `configured`: a broker's configuration is here."""
    none = () if configured else (Assumed("configuration", "none", NOT_CONFIGURED),)
    return (*_assumptions(store, places, release, because, asked=asked), *none)


def _assumptions(store: Store, places: Places, release: str, because: str, *, asked: bool) -> Iterator[Assumed]:
    config = store.config
    for length in _lengths(store, places):
        if config.explicit_integer(length.key) is None and length.files:
            default = int(DEFAULTS[length.key])
            source = "the files, as by default" if length.value == default else f"the files; default {default}: {NOT_STARTING}"
            yield Assumed(length.key, length.value, source)
    if store.index_files():
        for key, value in ((_SLOTS, places.index_slots), (_ITEMS, places.index_items)):
            if config.explicit_integer(key) is None:
                default = int(DEFAULTS[key])
                yield Assumed(key, value, "the files, as by default" if value == default else f"the files; default {default}")
    if not asked:
        yield Assumed("broker version", release, because)
    for key in _SWITCHES:
        if config.explicit(key) is None:
            default_of_switch = DEFAULTS[key]
            yield Assumed(key, default_of_switch, DEFAULT)


def contradicted(context: Context) -> Iterator[Finding]:
    """Yield a finding for every stated size that most files of its part do not have; `expected` is the setting to change to."""
    for length in _lengths(context.store, None):
        stated = context.store.config.explicit_integer(length.key)
        found = infer_file_size(length.files)
        if stated is None or found is None or _file_length(length.key, stated) == found:
            continue
        of_that_length = sum(file.length == found for file in length.files)
        if 2 * of_that_length > len(length.files) and _possible(length.key, found, of_that_length):
            text = f"{length.key} is {stated}, but the files of this store have {found} bytes"
            yield _setting(context, text, length.files[0].path.parent, length.key, found, stated)

    yield from _index_contradicted(context)
    yield from _compaction_contradicted(context)


def _index_contradicted(context: Context) -> Iterator[Finding]:
    """Yield wrong numbers of slots and entries; with them a broker looks for entries in the wrong places (fact sheet queues §6)."""
    store = context.store
    files = [file for file in store.index_files() if file.named_right and file.length]
    stated = {key: store.config.explicit_integer(key) for key in (_SLOTS, _ITEMS)}
    if not files or all(value is None for value in stated.values()):
        return
    taken = store.config.integer(_SLOTS), store.config.integer(_ITEMS)
    length = Counter(file.length for file in files).most_common(1)[0][0]
    if index.file_size(*taken) == length:
        return
    right = guess_geometry([file.mapped for file in files])
    for key, value, wanted in zip((_SLOTS, _ITEMS), taken, right or (), strict=False):
        if value != wanted:
            text = f"{key} is {value}, but the index files of this store have {length} bytes, as with {wanted}"
            yield _setting(context, text, files[0].path.parent, key, wanted, value)


def _compaction_contradicted(context: Context) -> Iterator[Finding]:
    """Yield wrong compaction lengths; one of the two that is stated implies the default of the other."""
    store = context.store
    trees = ((_COMPACTED, store.compaction_log_directories()), (_COMPACTED_QUEUE, store.compaction_queue_directories()))
    if all(store.config.explicit_integer(key) is None for key, _ in trees):
        return
    queue_length = queue_file_size(store.config.integer(_COMPACTED_QUEUE))
    taken = {_COMPACTED: log_file_size(store.config.integer(_COMPACTED), queue_length), _COMPACTED_QUEUE: queue_length}
    for key, directories in reversed(trees):
        files = [file for directory in directories for file in directory.files.files]
        length = infer_file_size(files)
        if length is not None and length != taken[key] and all(file.length == length for file in files):
            text = f"{key} is {store.config.integer(key)}, but the files of this store have {length} bytes"
            wanted = length if key == _COMPACTED_QUEUE else _rounded_to(length, queue_length)
            yield _setting(context, text, files[0].path.parent, key, wanted, store.config.integer(key))
            return  # with another length of queue files, log files may have the correct one


def _rounded_to(length: int, queue_length: int) -> int:
    """Return a setting that a broker rounds to log files of `length` bytes."""
    whole = (length - 1) // _ROUND * _ROUND
    return whole if log_file_size(whole, queue_length) == length else length + 1


def _setting(context: Context, text: str, path: Path, key: str, wanted: int, found: int) -> Finding:
    return context.finding("RMQ-ST-SETTING", text, file=path, expected=f"{key}={wanted}", found=f"{key}={found}")


def _file_length(key: str, stated: int) -> int:
    return consumequeue.file_size(stated) if key == "mappedFileSizeConsumeQueue" else stated


def _possible(key: str, length: int, files: int) -> bool:
    """Return whether a setting can be the reason: a queue file has whole entries, and a single file of another kind has a round length."""
    if key == "mappedFileSizeConsumeQueue":
        return length > 0 and length % consumequeue.UNIT_SIZE == 0 and files > 1
    return length > 0 and (files > 1 or length % _ROUND == 0)


def _lengths(store: Store, places: Places | None) -> Iterator[_Length]:
    log = store.commitlog
    yield _Length("mappedFileSizeCommitLog", places.commitlog_file_size if places else 0, log.files)
    queues = tuple(file for queue in store.queue_directories() for file in queue.files.files)
    yield _Length("mappedFileSizeConsumeQueue", places.queues.simple_file_size if places else 0, queues)
    batch = tuple(file for queue in store.batch_queue_directories() for file in queue.files.files)
    yield _Length("mapperFileSizeBatchConsumeQueue", places.queues.batch_file_size if places else 0, batch)
    ext = tuple(file for queue in store.ext_queue_directories() for file in queue.files.files)
    yield _Length("mappedFileSizeConsumeQueueExt", places.queues.ext_file_size if places else 0, ext)
    timer = store.timerlog
    yield _Length("mappedFileSizeTimerLog", timer.file_size or BrokerConfig().integer("mappedFileSizeTimerLog"), timer.files)
