"""Random damages of the log: files with wrong names, copies, lost and exchanged sectors and pages, clocks that jump."""

from __future__ import annotations

from random import Random

from rmqstore.formats.naming import offset_to_file_name
from tests.campaign.kinds import PAGE, SECTOR, kind
from tests.support.damages import FAR_FUTURE, set_field_of
from tests.support.operations import Copy, Create, CutOut, Exchange, Noise, Op, PutIn, Rename, Resize, Swap, Touch, Write, Zero
from tests.support.storeview import LogFile, LogRecord, StoreView

_JUMPS = (1, 2, 7, 50, 1000, 5000, 1 << 40, -1, -2, -7, -50, -1000, -(1 << 40))
_BACKUP_NAMES = (".bak", ".old", "~", ".1", "-copy")


def _two_files(random: Random, view: StoreView) -> tuple[LogFile, LogFile] | None:
    files = view.data_files
    if len(files) < 2:
        return None
    first, second = random.sample(files, 2)
    return first, second


def _record(random: Random, view: StoreView) -> LogRecord | None:
    return random.choice(view.records) if view.records else None


def _used(file: LogFile) -> int:
    """Bytes of a file up to the end of its last record."""
    return file.records[-1].end


def _aligned(random: Random, view: StoreView, size: int) -> tuple[str, int] | None:
    """File and position of a block of `size` bytes that holds bytes of records."""
    record = _record(random, view)
    if record is None:
        return None
    position = (record.position + random.randrange(record.size)) // size * size
    return record.path, position


@kind("log-files-swapped")
def _swapped(random: Random, view: StoreView) -> list[Op]:
    pair = _two_files(random, view)
    return [Swap(pair[0].path, pair[1].path)] if pair else []


@kind("log-file-misnamed")
def _misnamed(random: Random, view: StoreView) -> list[Op]:
    if not view.data_files:
        return []
    file = random.choice(view.data_files)
    behind = view.log_files[-1].start + view.log_file_size
    name = random.choice(
        (
            offset_to_file_name(behind),
            offset_to_file_name(behind + 5 * view.log_file_size),
            offset_to_file_name(file.start + SECTOR),
            str(file.start),
            f"{offset_to_file_name(file.start)}{random.choice(_BACKUP_NAMES)}",
            f"-{offset_to_file_name(file.start)[1:]}",
            "lost+found.0001",
        )
    )
    return [Rename(file.path, f"commitlog/{name}")]


@kind("log-file-copied-over")
def _copied_over(random: Random, view: StoreView) -> list[Op]:
    pair = _two_files(random, view)
    return [Copy(pair[0].path, pair[1].path)] if pair else []


@kind("log-backup-beside")
def _backup_beside(random: Random, view: StoreView) -> list[Op]:
    """A copy of a file under a foreign name or that of a later file, whole or of an earlier time; the file itself may be damaged."""
    if not view.data_files:
        return []
    file = random.choice(view.data_files)
    kept = view.read(file.path)[: random.choice((view.log_file_size, random.choice(file.records).end))]
    later = offset_to_file_name(view.log_files[-1].start + view.log_file_size)
    name = random.choice((*(f"{offset_to_file_name(file.start)}{ending}" for ending in _BACKUP_NAMES), later))
    length = random.choice((view.log_file_size, 0))
    operations: list[Op] = [Create(f"commitlog/{name}", kept, length)]
    if random.random() < 0.5:
        position = random.randrange(_used(file))
        operations.append(Noise(file.path, position, min(random.choice((SECTOR, PAGE, 20000)), view.log_file_size - position)))
    return operations


def _exchanged(random: Random, view: StoreView, size: int) -> list[Op]:
    first, second = _aligned(random, view, size), _aligned(random, view, size)
    return [Exchange(*first, *second, size)] if first and second and first != second else []


@kind("log-sectors-exchanged")
def _sectors_exchanged(random: Random, view: StoreView) -> list[Op]:
    return _exchanged(random, view, SECTOR)


@kind("log-pages-exchanged")
def _pages_exchanged(random: Random, view: StoreView) -> list[Op]:
    return _exchanged(random, view, PAGE)


@kind("log-sector-lost")
def _sector_lost(random: Random, view: StoreView) -> list[Op]:
    place = _aligned(random, view, SECTOR)
    return [CutOut(*place, random.choice((SECTOR, SECTOR, PAGE)))] if place else []


@kind("log-sector-inserted")
def _sector_inserted(random: Random, view: StoreView) -> list[Op]:
    place = _aligned(random, view, SECTOR)
    length = random.choice((SECTOR, SECTOR, PAGE))
    return [PutIn(*place, random.choice((bytes(length), random.randbytes(length))))] if place else []


@kind("log-sector-zeroed")
def _sector_zeroed(random: Random, view: StoreView) -> list[Op]:
    place = _aligned(random, view, SECTOR)
    return [Zero(*place, SECTOR)] if place else []


@kind("log-page-zeroed")
def _page_zeroed(random: Random, view: StoreView) -> list[Op]:
    place = _aligned(random, view, PAGE)
    return [Zero(*place, PAGE)] if place else []


@kind("log-head-zeroed")
def _head_zeroed(random: Random, view: StoreView) -> list[Op]:
    return [Zero(random.choice(view.data_files).path, 0, PAGE)] if view.data_files else []


@kind("log-stray-record")
def _stray_record(random: Random, view: StoreView) -> list[Op]:
    """A sound record of another place written over the end of one record and the head of the next."""
    source, target = _record(random, view), _record(random, view)
    if source is None or target is None:
        return []
    position = target.position + random.randrange(target.size)
    data = view.read(source.path)[source.position : source.end][: view.log_file_size - position]
    return [Write(target.path, position, data)]


@kind("log-sysflag-ones")
def _sysflag_ones(random: Random, view: StoreView) -> list[Op]:
    record = _record(random, view)
    return [set_field_of(record, "sys_flag", -1)] if record else []


@kind("log-queueoffset-jump")
def _queue_offset_jump(random: Random, view: StoreView) -> list[Op]:
    """The QUEUEOFFSET of one record jumps, or those of two to eight records in a row in one queue do: alike, or each by itself."""
    record = _record(random, view)
    if record is None:
        return []
    if random.random() < 0.25:
        return [set_field_of(record, "queue_offset", record.record.queue_offset + random.choice((1, 7, 1000, 1 << 40)))]
    queue = (record.record.topic, record.record.queue_id)
    of_queue = [one for one in view.records if (one.record.topic, one.record.queue_id) == queue]
    first = of_queue.index(record)
    count = random.randint(2, 8)
    alike = random.choice(_JUMPS)
    by = [alike] * count if random.random() < 0.75 else random.choices(_JUMPS, k=count)
    return [
        set_field_of(one, "queue_offset", one.record.queue_offset + jump)
        for one, jump in zip(of_queue[first : first + count], by, strict=False)
    ]


@kind("log-clock-jump")
def _clock_jump(random: Random, view: StoreView) -> list[Op]:
    """STORETIMESTAMP of a run of records jumps back or ahead, or the modification times of files do."""
    if not view.records:
        return []
    if random.random() < 0.5:
        return [Touch(file.path, random.choice((0, FAR_FUTURE * 10**6, 10**18))) for file in random.sample(view.log_files, 1)]
    first = random.randrange(len(view.records))
    by = random.choice((-86_400_000, -3_600_000, 3_600_000, 10 * 365 * 86_400_000))
    return [
        set_field_of(record, "store_timestamp", record.record.store_timestamp + by)
        for record in view.records[first : first + random.choice((1, 5, 50))]
    ]


@kind("log-file-resized")
def _resized(random: Random, view: StoreView) -> list[Op]:
    if not view.log_files:
        return []
    file, size = random.choice(view.log_files), view.log_file_size
    return [Resize(file.path, random.choice((size + 1, size + SECTOR, size - 1, size - SECTOR, random.randrange(1, 2 * size))))]
