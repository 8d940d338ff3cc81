"""One to three damages of a store at random places: some of the named ones, most of them single bytes, fields, units and files.

A plan is made on the undamaged store; it depends on its bytes and the random numbers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from random import Random

from rmqstore.formats import batchconsumequeue, checkpoint, consumequeue, index
from rmqstore.formats.layout import fixed_layout
from tests.support.damages import DAMAGES, FIELDS, set_field
from tests.support.operations import Delete, Flip, Move, Noise, Op, Resize, Write, Zero
from tests.support.storeview import UNIT_SIZE, LogRecord, StoreView, Unit

Damage = tuple[str, list[Op]]
"""What it is called, and what it comes to."""

_COUNTS = (1, 1, 1, 2, 2, 3)
_CHECKPOINT = fixed_layout(checkpoint.CHECKPOINT)
_BATCH_UNIT_SIZE = batchconsumequeue.UNIT.sizeof()
_LENGTHS = (1, 8, 64, 512, 4096, 20000)


def random_damage(random: Random, view: StoreView, counts: Sequence[int] = _COUNTS) -> Damage:
    """As many damages of what the store has as one of `counts` says."""
    weights = {
        _log: 50 if view.records else 0,
        _queue: 22 if view.queues else 0,
        _batch_queue: 8 if _batch_files(view) else 0,
        _index: 8 if view.index_files else 0,
        _checkpoint: 10,
        _named: 10 if view.records and view.queues else 0,
    }
    chosen = [area(random, view) for area in random.choices(list(weights), list(weights.values()), k=random.choice(counts))]
    return "+".join(name for name, _ in chosen), [operation for _, operations in chosen for operation in operations]


def _named(random: Random, view: StoreView) -> Damage:
    """Foreign files block a start and would hide whatever else was chosen."""
    name = random.choice([name for name in DAMAGES if "+" not in name and not name.startswith(("file-foreign", "abort", "lock", "none"))])
    return name, DAMAGES[name](view)


# ---- log


def _log(random: Random, view: StoreView) -> Damage:
    target = random.choice(view.records) if random.random() < 0.6 else random.choice(view.data_files[-1].records)
    kinds = {_flip: 3, _field: 2, _zero: 1, _noise: 1, _misplaced: 1, _tail: 1, _log_file: 1}
    (kind,) = random.choices(list(kinds), list(kinds.values()))
    return kind(random, view, target)


def _flip(random: Random, view: StoreView, target: LogRecord) -> Damage:
    return "log-flip", [Flip(target.path, target.position + random.randrange(target.size), 1 << random.randrange(8))]


def _field(random: Random, view: StoreView, target: LogRecord) -> Damage:
    name = random.choice(list(FIELDS))
    bits = 8 * target.fields[FIELDS[name]].width
    small = random.getrandbits(bits - 1) >> random.randrange(bits)
    return f"log-field-{name}", [set_field(target, FIELDS[name], random.choice((0, 1, -1, random.getrandbits(bits), small)))]


def _range(random: Random, view: StoreView, target: LogRecord) -> tuple[int, int]:
    """Position and length of a range that begins in the record and ends with the file at the latest."""
    position = target.position + random.randrange(target.size)
    return position, min(random.choice(_LENGTHS), view.log_file_size - position)


def _zero(random: Random, view: StoreView, target: LogRecord) -> Damage:
    return "log-zero", [Zero(target.path, *_range(random, view, target))]


def _noise(random: Random, view: StoreView, target: LogRecord) -> Damage:
    return "log-noise", [Noise(target.path, *_range(random, view, target), random.getrandbits(30))]


def _misplaced(random: Random, view: StoreView, target: LogRecord) -> Damage:
    """A record that was written at the place of another one."""
    source = random.choice(view.records)
    length = min(source.size, view.log_file_size - target.position)
    return "log-misplaced", [Move(target.path, target.position, source.path, source.position, length)]


def _tail(random: Random, view: StoreView, target: LogRecord) -> Damage:
    path, position = view.tail()
    length = min(random.choice((3, 40, 200, 2000)), view.log_file_size - position)
    return "log-tail-noise", [Noise(path, position, length, random.getrandbits(30))] if length > 0 else []


def _log_file(random: Random, view: StoreView, target: LogRecord) -> Damage:
    path = random.choice(view.log_files).path
    length = random.choice((0, view.log_file_size // 2, view.log_file_size - 1))
    return random.choice(
        (
            ("log-file-deleted", [Delete(path)]),
            ("log-file-resized", [Resize(path, length)]),
            ("log-file-zeroed", [Zero(path, 0, view.log_file_size)]),
        )
    )


# ---- queues


def _queue(random: Random, view: StoreView) -> Damage:
    key = random.choice(sorted(view.queues))
    path = random.choice(view.queues[key])
    whole = (
        ("cq-file-deleted", [Delete(path)]),
        ("cq-directory-deleted", [Delete(str(PurePosixPath(path).parent))]),
        ("cq-noise", [Noise(path, random.randrange(view.queue_file_size // UNIT_SIZE) * UNIT_SIZE, UNIT_SIZE, random.getrandbits(30))]),
    )
    units = view.units(key)
    return random.choice((*whole, *_unit_damages(random, view, units)) if units else whole)


def _unit_damages(random: Random, view: StoreView, units: list[Unit]) -> tuple[Damage, ...]:
    unit, other, last = random.choice(units), random.choice(units), units[-1]
    cleared = units[-random.randrange(1, len(units) + 1) :]
    appended = _unit(random.randrange(2 * view.end + 1), random.randrange(1, 500), 0)
    fits = last.position + 2 * UNIT_SIZE <= view.queue_file_size
    return (
        ("cq-flip", [Flip(unit.path, unit.position + random.randrange(UNIT_SIZE), 1 << random.randrange(8))]),
        ("cq-unit-copy", [Write(unit.path, unit.position, _unit(other.physical_offset, other.size, other.tags_code))]),
        ("cq-tail-zero", [Zero(gone.path, gone.position, UNIT_SIZE) for gone in cleared]),
        ("cq-append", [Write(last.path, last.position + UNIT_SIZE, appended)] if fits else []),
    )


def _unit(physical_offset: int, size: int, tags_code: int) -> bytes:
    return bytes(consumequeue.UNIT.build({"physical_offset": physical_offset, "size": size, "tags_code": tags_code}))


def _batch_files(view: StoreView) -> list[str]:
    return sorted(path.relative_to(view.root).as_posix() for path in view.root.glob("batchconsumequeue/*/*/*"))


def _batch_queue(random: Random, view: StoreView) -> Damage:
    path = random.choice(_batch_files(view))
    used = max(1, len(view.read(path).rstrip(b"\0")) // _BATCH_UNIT_SIZE + 1) * _BATCH_UNIT_SIZE
    position = random.randrange(used)
    unit = position // _BATCH_UNIT_SIZE * _BATCH_UNIT_SIZE
    return random.choice(
        (
            ("bcq-flip", [Flip(path, position, 1 << random.randrange(8))]),
            ("bcq-tail-zero", [Zero(path, unit, used - unit)]),
            ("bcq-noise", [Noise(path, unit, _BATCH_UNIT_SIZE, random.getrandbits(30))]),
            ("bcq-file-deleted", [Delete(path)]),
            ("bcq-directory-deleted", [Delete(str(PurePosixPath(path).parent))]),
        )
    )


# ---- index, checkpoint


def _index(random: Random, view: StoreView) -> Damage:
    path = random.choice(view.index_files)
    size = len(view.read(path))
    header = random.choice(list(fixed_layout(index.HEADER).values()))
    return random.choice(
        (
            ("index-noise", [Noise(path, random.randrange(size - 64), 64, random.getrandbits(30))]),
            ("index-header-noise", [Noise(path, header.offset, header.width, random.getrandbits(30))]),
            ("index-file-deleted", [Delete(path)]),
            ("index-file-resized", [Resize(path, random.randrange(size))]),
        )
    )


def _checkpoint(random: Random, view: StoreView) -> Damage:
    name = random.choice([name for name in _CHECKPOINT if name != "reserved"])
    if name in ("physic_msg_timestamp", "logics_msg_timestamp", "index_msg_timestamp"):
        near = max((item.record.store_timestamp for item in view.records), default=0) + random.randrange(-20000, 20000)
    else:
        near = random.randrange(2 * view.end + 1)
    value = random.choice((0, 1, near, near, random.getrandbits(63)))
    return f"checkpoint-{name}", [Write("checkpoint", _CHECKPOINT[name].offset, (value % (1 << 64)).to_bytes(8, "big"))]
