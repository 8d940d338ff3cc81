"""Differences between broker releases in their use of a store, as one table of profiles.

A profile holds for a range of releases; a row of the table names only what differs from the row before it, so the table reads as the
history of the broker. Code asks the profile for a named field and never for a release number.

Sources: fact sheets commit log §3–§6, queues §2, §6 and the sheet of the newer releases §2–§6; every field says where it comes from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum

from rmqstore.errors import UsageError
from rmqstore.formats.naming import RETRY_PREFIX, SCHEDULE_TOPIC, SYSTEM_PREFIX, TIMER_TOPIC


class NormalStart(Enum):
    """Start of recovery in the commit log after a clean stop (fact sheet commit log §5.1)."""

    THIRD_LAST = "the third last file"
    NAMED_WITHIN_QUEUES = "the last file whose name is not beyond what the queues know"
    FIRST_RECORD = "the last file whose first record is valid and not beyond what the queues know"


class AbnormalStart(Enum):
    """Check of a first file for abnormal recovery, searched from the last one down (fact sheet commit log §5.2, newer releases §3.3)."""

    HEADER_TIME = "store time of the first record, which is not checked otherwise"
    CHECKED_TIME = "store time of the first record, which has to be valid"
    CHECKED_OFFSET = "PHYSICALOFFSET of the first record, which has to be valid, against the checkpoint"


class Acceleration(Enum):
    """Effect of `enableAcceleratedRecovery` (fact sheet newer releases §3.5)."""

    NONE = "the option does not exist"
    ROCKSDB_ONLY = "begins at the offset that RocksDB queues know"
    FROM_CHECKPOINT = "abnormal recovery begins at the offset of the checkpoint"


@dataclass(frozen=True, slots=True)
class Profile:
    """Behaviour of a range of releases. Offsets `@n` are bytes in the checkpoint file."""

    since: str
    until: str

    # the record check (commit log §3)
    ipv6_hosts: bool = False
    """A host has 20 bytes if SYSFLAG says so; without it each has 8."""
    reads_v2: bool = False
    """MAGICCODE V2 is a record; without it an illegal magic."""
    checks_remaining: bool = False
    """A record that does not fit into the rest of the file fails before anything else, without allocating its size."""
    checks_dup_info: bool = False
    """`duplicationEnable` demands the property DUP_INFO."""
    parses_inner_batch: bool = False
    """INNER_NUM and INNER_BASE have to be numbers."""
    verifies_property_crc: bool = False
    """`forceVerifyPropCRC` is honoured."""
    property_crc_zero_fails: bool = False
    """A property CRC of exactly 0 counts as missing."""
    delay_table_in_recovery: bool = True
    """The delay levels are known while recovery dispatches; without them schedule units carry the tag hash."""
    reuses_check_buffer: bool = False
    """Fields may be longer than TOTALSIZE as long as a reused buffer of up to 1 MiB holds them."""

    # loading files (commit log §4.1–4.3)
    creates_directories: bool = False
    """The store creates the directories of log and queues before it loads them; without it with the first file."""
    creates_each_log_path: bool = False
    """Every directory that storePathCommitLog names is created; without it one whose path is the whole text."""
    several_log_paths: bool = False
    """storePathCommitLog can name several directories; without it its text is one path."""
    checks_file_length: bool = False
    """A file of another length makes load fail; without it the broker ignores that file and all later ones."""
    skips_directories: bool = False
    """A directory among mapped files is skipped; without it its length is compared and load fails."""
    deletes_empty_last_file: bool = False
    batch_queues: bool = False
    newer_parts: bool = False
    """The timer wheel, static topics (topicQueueMapping.json) and ordered pop (consumerOrderInfo.json) exist."""
    compaction: bool = False
    """The compaction service opens `compaction/` and rewrites its position file when the store stops."""
    index_load_decides: bool = False
    """A failing index load makes load fail, though recovery runs all the same."""
    schedule_in_store: bool = False
    """The store itself loads and persists the schedule offsets."""
    saves_schedule_at_stop: bool = False
    """A stop writes the schedule offsets; without it a thread does, 10 seconds after the start for the first time."""

    # checkpoint (commit log §4.5, newer releases §6)
    checkpoint_longs: int = 3
    slave_moves_physic: bool = False
    """Dispatch on a slave moves @0."""
    logics_at_flush: bool = False
    """@8 and @40 advance with a full queue flush only, not at every append."""

    # recovery of the commit log (commit log §5)
    cuts_queues_that_know_more: bool = False
    """Queues are cut if they know more than the log has; without it after every crash, and never after a clean stop."""
    drops_queues_without_log: bool = False
    """A clean start without log files deletes the queues, as a crash recovery does."""
    stops_at_wrong_length: bool = False
    """Crash recovery stops at a record whose fields are longer or shorter than TOTALSIZE; without it an empty message is dispatched."""
    normal_start: NormalStart = NormalStart.THIRD_LAST
    abnormal_start: AbnormalStart = AbnormalStart.HEADER_TIME
    limits_search: bool = False
    """The search for the first file ends after `commitLogRecoverMaxNum` files."""
    transactions_hold_recovery: bool = False
    """The search goes back to where `transRocksDBEnable` has all half messages; without it only if they are kept there alone."""
    dispatches_for_all: bool = False
    """Normal recovery also dispatches what index and transactions in RocksDB do not have yet."""
    dispatches_normally: bool = False
    """Normal recovery dispatches records beyond what the queues know."""
    confirms: bool = False
    """Recovery sets the confirm offset to the start of the last valid record."""
    member_dispatches_in_recovery: bool = False
    """Crash recovery of a member of a DLedger group dispatches from the first file that it searches; without it nothing."""
    queues_cut_after_dispatch: bool = False
    """Whether queues are cut is decided by what they know after the scan has dispatched, not before it."""
    acceleration: Acceleration = Acceleration.NONE
    checks_offset_range: bool = False
    """`checkCommitLogOffsetOnRecover` exists."""

    # dispatch after the start (commit log §6)
    dispatches_from_log: bool = False
    """Dispatch begins at the log's first byte where it would begin before it."""

    # queues (queues §2.10, §2.12)
    queues_know_ends: bool = False
    """A queue knows the end of its last message; without it where that begins."""
    min_offset_by_search: bool = False
    """The minimum offset is searched by halving, and a queue whose last unit is expired counts as empty."""
    empty_last_file_fails: bool = False
    """An empty last queue file makes the correction of the minimum throw, and load fails."""
    forgets_queue_without_files: bool = False
    """The correction resets minimum and maxPhysicOffset of a queue that has no files."""
    lmq_excluded: tuple[str, ...] = ()
    """Beginnings of topic names whose records get no LMQ units."""
    lmq_skips_paths: bool = False
    """A name with a path separator gets no LMQ unit."""

    # queues in RocksDB (queues §8)
    rocksdb_queues: bool = False
    """`storeType=defaultRocksDB` keeps the queues in RocksDB."""
    rocksdb_moves_checkpoint: bool = False
    """Dispatch into RocksDB moves the times of the checkpoint."""
    rocksdb_imports_json: bool = False
    """With `storeType=defaultRocksDB` a JSON file of topics, groups or offsets that is newer than the database is read into it."""
    rocksdb_config_read_whole: bool = False
    """A topic, group or offset that cannot be read from a RocksDB configuration (v1) ends the broker; without it the rest is lost."""

    config_v2: bool = False
    """`configManagerVersion=v2` keeps topics, groups and offsets in `config/rdb`, and reads no other place."""

    message_database: bool = False
    """`rocksdbstore` exists, with index, timed messages and transactions where settings put them there."""

    # index (queues §6)
    counts_used_slots: bool = False
    """hashSlotCount counts the slots in use; without it the items."""
    indexes_tags: bool = False

    flushes_index: bool = False
    """A stop writes the headers of all index files, even of one that has no items."""

    # start and stop (commit log §4.4, §6, Q13)
    reput_from_queues: bool = False
    """Dispatch continues where the queues end, and start waits for it; without it where the log is confirmed."""
    sync_flush_confirms_flushed: bool = False
    """With SYNC_FLUSH the log is confirmed up to what is flushed."""
    writes_pid_to_abort: bool = False
    failed_load_stops_store: bool = False
    """The full stop routine runs after a failed load, too."""
    deletes_unreadable_config: bool = False
    """A configuration file that cannot be read is deleted before its backup is; without it the stop copies it over the backup."""
    breaks_empty_table: bool = False
    """A JSON table without entries is written with a line break (fastjson 2.0.43)."""


def _table() -> tuple[Profile, ...]:
    rows = [Profile("4.3.0", "4.3.1", schedule_in_store=True)]

    def change(since: str, until: str, **fields: object) -> None:
        rows.append(replace(rows[-1], since=since, until=until, **fields))  # type: ignore[arg-type]

    change("4.3.2", "4.4.0", cuts_queues_that_know_more=True, stops_at_wrong_length=True)
    change(
        "4.5.0",
        "4.5.2",
        checks_file_length=True,
        drops_queues_without_log=True,
        queues_know_ends=True,
        reput_from_queues=True,
        dispatches_from_log=True,
    )
    change("4.6.0", "4.7.0", ipv6_hosts=True, slave_moves_physic=True)
    change("4.7.1", "4.9.1", counts_used_slots=True)
    change("4.9.2", "4.9.2", checks_file_length=False, creates_directories=True, several_log_paths=True, delay_table_in_recovery=False)
    change("4.9.3", "4.9.8", checks_file_length=True, creates_each_log_path=True, saves_schedule_at_stop=True)
    change(
        "5.0.0",
        "5.0.0",
        checks_dup_info=True,
        parses_inner_batch=True,
        delay_table_in_recovery=True,
        batch_queues=True,
        newer_parts=True,
        index_load_decides=True,
        flushes_index=True,
        schedule_in_store=False,
        checkpoint_longs=4,
        confirms=True,
        min_offset_by_search=True,
        empty_last_file_fails=True,
        lmq_excluded=(RETRY_PREFIX, TIMER_TOPIC, SCHEDULE_TOPIC),
        reput_from_queues=False,
        writes_pid_to_abort=True,
    )
    change("5.1.0", "5.1.0", reads_v2=True, skips_directories=True, compaction=True)
    change("5.1.1", "5.1.1", checkpoint_longs=5)
    change("5.1.2", "5.1.2", lmq_skips_paths=True)
    change("5.1.3", "5.1.4", deletes_empty_last_file=True)
    change(
        "5.2.0",
        "5.3.0",
        verifies_property_crc=True,
        property_crc_zero_fails=True,
        rocksdb_queues=True,
        rocksdb_moves_checkpoint=True,
        member_dispatches_in_recovery=True,
        lmq_excluded=(RETRY_PREFIX, SYSTEM_PREFIX, SCHEDULE_TOPIC),
    )
    change("5.3.1", "5.3.1", rocksdb_imports_json=True)
    change(
        "5.3.2",
        "5.3.3",
        config_v2=True,
        checks_remaining=True,
        property_crc_zero_fails=False,
        rocksdb_moves_checkpoint=False,
        normal_start=NormalStart.NAMED_WITHIN_QUEUES,
        dispatches_normally=True,
        sync_flush_confirms_flushed=True,
    )
    change(
        "5.3.4",
        "5.3.4",
        normal_start=NormalStart.FIRST_RECORD,
        abnormal_start=AbnormalStart.CHECKED_TIME,
        queues_cut_after_dispatch=True,
        acceleration=Acceleration.ROCKSDB_ONLY,
        failed_load_stops_store=True,
        deletes_unreadable_config=True,
    )
    change("5.4.0", "5.4.0", limits_search=True, message_database=True, indexes_tags=True, breaks_empty_table=True)
    change(
        "5.5.0",
        "5.5.0",
        checkpoint_longs=6,
        logics_at_flush=True,
        abnormal_start=AbnormalStart.CHECKED_OFFSET,
        acceleration=Acceleration.FROM_CHECKPOINT,
        checks_offset_range=True,
        transactions_hold_recovery=True,
        dispatches_for_all=True,
        empty_last_file_fails=False,
        breaks_empty_table=False,
    )
    change("5.5.1", "5.5.1", reuses_check_buffer=True, forgets_queue_without_files=True, rocksdb_config_read_whole=True)
    return tuple(rows)


PROFILES: tuple[Profile, ...] = _table()
_RELEASE = re.compile(r"\d+\.\d+\.\d+")


def release_key(release: str) -> tuple[int, ...]:
    """Return a release as numbers that can be compared."""
    return tuple(int(number) for number in release.split("."))


def profile_of(release: str) -> Profile:
    """Return the profile of a release such as `5.3.3`. Raises UsageError for a text that is not a release, or an unknown release."""
    known = f"Known releases: {PROFILES[0].since} to {PROFILES[-1].until}."
    if not _RELEASE.fullmatch(release):
        raise UsageError(f"{release!r} is not a release of RocketMQ.", f"Write it as in 5.3.3. {known}")
    key = release_key(release)
    for profile in PROFILES:
        if release_key(profile.since) <= key <= release_key(profile.until):
            return profile
    raise UsageError(f"The behaviour of RocketMQ {release} at a start is not known.", known)
