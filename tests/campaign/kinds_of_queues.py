"""Random damages of consume queues: exchanged, copied over one another, old, and with strange neighbours."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from random import Random

from tests.campaign.kinds import kind
from tests.support.operations import Copy, CopyTree, Create, CutOut, Delete, Exchange, MakeDirectory, Op, Rename, Resize, Swap, Zero
from tests.support.storeview import UNIT_SIZE, StoreView

QueueKey = tuple[str, str]


def _directory(key: QueueKey) -> str:
    return f"consumequeue/{key[0]}/{key[1]}"


def _pair(random: Random, pairs: Iterable[tuple[QueueKey, QueueKey]]) -> list[Op]:
    found = sorted(pairs)
    if not found:
        return []
    first, second = random.choice(found)
    return [Swap(_directory(first), _directory(second))]


def _pairs(view: StoreView) -> list[tuple[QueueKey, QueueKey]]:
    return [(first, second) for first in view.queues for second in view.queues if first < second]


@kind("queues-swapped-in-topic")
def _same_topic(random: Random, view: StoreView) -> list[Op]:
    return _pair(random, (pair for pair in _pairs(view) if pair[0][0] == pair[1][0]))


@kind("queues-swapped-equal-names")
def _equal_names(random: Random, view: StoreView) -> list[Op]:
    """Of topics whose names have the same length."""
    return _pair(random, (pair for pair in _pairs(view) if pair[0][0] != pair[1][0] and len(pair[0][0]) == len(pair[1][0])))


@kind("queues-swapped-unequal-names")
def _unequal_names(random: Random, view: StoreView) -> list[Op]:
    return _pair(random, (pair for pair in _pairs(view) if len(pair[0][0]) != len(pair[1][0])))


@kind("topics-swapped")
def _topics(random: Random, view: StoreView) -> list[Op]:
    topics = sorted({topic for topic, _ in view.queues})
    if len(topics) < 2:
        return []
    first, second = random.sample(topics, 2)
    return [Swap(f"consumequeue/{first}", f"consumequeue/{second}")]


@kind("queue-files-swapped")
def _files_swapped(random: Random, view: StoreView) -> list[Op]:
    """Of one queue, or of two."""
    files = [path for key in sorted(view.queues) for path in view.queues[key]]
    of_one = [view.queues[key] for key in sorted(view.queues) if len(view.queues[key]) > 1]
    choices = random.choice(of_one) if of_one and random.random() < 0.5 else files
    if len(choices) < 2:
        return []
    first, second = random.sample(choices, 2)
    return [Swap(first, second)]


@kind("queue-copied-over")
def _copied_over(random: Random, view: StoreView) -> list[Op]:
    """The files of one queue, or one of them, over those of another."""
    if len(view.queues) < 2:
        return []
    first, second = random.sample(sorted(view.queues), 2)
    if random.random() < 0.5:
        return [CopyTree(_directory(first), _directory(second))]
    return [Copy(random.choice(view.queues[first]), random.choice(view.queues[second]))]


def _as_of(view: StoreView, key: QueueKey, end: int) -> list[Op]:
    """The queue as it was when the log ended at `end`: later units are zeros, files that hold none are gone."""
    operations: list[Op] = []
    for path in view.queues[key]:
        units = [unit for unit in view.units(key) if unit.path == path]
        later = [unit for unit in units if unit.physical_offset >= end]
        if units and len(later) == len(units) and path != view.queues[key][0]:
            operations.append(Delete(path))
        elif later:
            operations.append(Zero(path, later[0].position, view.queue_file_size - later[0].position))
    return operations


@kind("queues-old-backup")
def _old_backup(random: Random, view: StoreView) -> list[Op]:
    """One or all queues from an older backup."""
    if not view.queues or not view.records:
        return []
    end = random.choice(view.records).offset
    keys = sorted(view.queues) if random.random() < 0.5 else [random.choice(sorted(view.queues))]
    return [operation for key in keys for operation in _as_of(view, key, end)]


@kind("queue-units-exchanged")
def _units_exchanged(random: Random, view: StoreView) -> list[Op]:
    units = [unit for key in sorted(view.queues) for unit in view.units(key)]
    if len(units) < 2:
        return []
    first, second = random.sample(units, 2)
    return [Exchange(first.path, first.position, second.path, second.position, UNIT_SIZE)]


@kind("queue-sector-lost")
def _sector_lost(random: Random, view: StoreView) -> list[Op]:
    files = [path for key in sorted(view.queues) for path in view.queues[key]]
    if not files:
        return []
    length = random.choice((UNIT_SIZE, 512, 7))
    return [CutOut(random.choice(files), random.randrange(max(1, view.queue_file_size - length)), length)]


@kind("queue-file-resized")
def _resized(random: Random, view: StoreView) -> list[Op]:
    files = [path for key in sorted(view.queues) for path in view.queues[key]]
    size = view.queue_file_size
    lengths = (size + UNIT_SIZE, size - UNIT_SIZE, size + 1, size - 1, 0, random.randrange(2 * size))
    return [Resize(random.choice(files), random.choice(lengths))] if files else []


@kind("queue-directory-odd")
def _odd_directory(random: Random, view: StoreView) -> list[Op]:
    """A queue directory with a name that no queue has: copied, renamed or new."""
    if not view.queues:
        return []
    key = random.choice(sorted(view.queues))
    topic = f"consumequeue/{key[0]}"
    name = random.choice(("-1", "-7", "01", "+1", "9999999999", "2147483648", "abc", "0.bak", "1 ", "٣", ".hidden"))
    return random.choice(
        (
            [CopyTree(f"{topic}/{name}", _directory(key))],
            [Rename(_directory(key), f"{topic}/{name}")],
            [MakeDirectory(f"{topic}/{name}")],
        )
    )


@kind("queue-directory-stray")
def _stray(random: Random, view: StoreView) -> list[Op]:
    """A directory or file inside a queue directory, with a foreign name or the next one."""
    if not view.queues:
        return []
    key = random.choice(sorted(view.queues))
    following = f"{int(PurePosixPath(view.queues[key][-1]).name) + view.queue_file_size:020d}"
    path = f"{_directory(key)}/{random.choice(('stray', following, '1', '.nfs0001', 'lost+found'))}"
    return random.choice(
        ([MakeDirectory(path)], [Create(path, b"foreign")], [Create(path, b"", view.queue_file_size)], [MakeDirectory(f"{path}/0")])
    )
