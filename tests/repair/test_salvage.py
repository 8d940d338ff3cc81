"""Salvage: what becomes of each kind of damage in the log, and what is told about the messages that are lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.errors import RefusedError
from rmqstore.formats.message import BLANK, BLANK_MAGIC
from rmqstore.formats.naming import offset_to_file_name
from rmqstore.formats.record import decode_record
from rmqstore.formats.sysflag import SysFlag
from rmqstore.repair.derived.consumequeues import LostUnits
from rmqstore.repair.log.edits import LogRepair
from rmqstore.repair.log.fillers import FILLER_TOPIC
from rmqstore.repair.log.salvage import salvage
from rmqstore.repair.plan.staging import Staging
from rmqstore.repair.recover import Strategy
from rmqstore.scan.columns import Check
from rmqstore.scan.walk import LogScanner
from rmqstore.store.root import Store
from tests.repair.recovering import Damaged, damaged, messages_of
from tests.repair.test_recover import changes_nothing
from tests.support import stores
from tests.support.builder import StoreBuilder
from tests.support.storeview import StoreView

RELEASE = "5.3.3"


@pytest.fixture
def built(tmp_path: Path) -> StoreBuilder:
    """Forty messages in two queues, in log files of 4 KiB."""
    builder = StoreBuilder(tmp_path / "store", log_file_size=4096)
    for number in range(40):
        builder.message(queue_id=number % 2, body=bytes([number]) * 200, keys=f"k{number}")
    builder.build()
    return builder


def staged(root: Path) -> Staging:
    return Staging(root.parent / "staged", forced=False)


def change(builder: StoreBuilder, offset: int, data: bytes) -> None:
    """Writes over bytes of the log."""
    start = offset - offset % builder.log_file_size
    with (builder.root / "commitlog" / offset_to_file_name(start)).open("r+b") as stream:
        stream.seek(offset - start)
        stream.write(data)


def repaired(builder: StoreBuilder, release: str = RELEASE, **settings: str) -> LogRepair:
    return salvage(Store.open(builder.root, settings=builder.settings | settings), release, staging=staged(builder.root))


def records_of(builder: StoreBuilder) -> list[tuple[int, int]]:
    """(physical offset, size) of every record as it was built."""
    return [(record.offset, record.size) for record in StoreView(builder.root, builder.settings).records]


def future_records(repair: LogRepair) -> list[tuple[int, int]]:
    """(physical offset, size) of every message of the future log."""
    scanner = LogScanner(checks=Check.BODY_CRC, windows=repair.future.window)
    return [
        pair
        for batch in repair.future.batches(scanner)
        for pair in zip(*(batch.records[n].tolist() for n in ("position", "size")), strict=True)
    ]


def test_a_sound_log_is_left_alone(built: StoreBuilder) -> None:
    repair = repaired(built)
    assert repair.empty
    assert repair.lost == repair.future.damages == ()
    assert future_records(repair) == records_of(built)


def test_the_future_log_is_what_a_scan_of_the_future_bytes_gives(built: StoreBuilder) -> None:
    records = records_of(built)
    (first, size), (second, _) = records[3], records[20]
    change(built, first + 100, b"\xff" * 20)
    change(built, second, bytes(200))
    repair = repaired(built)
    assert future_records(repair) == [pair for pair in records if pair[0] not in (first, second)]
    assert [message.physical_offset for message in repair.lost] == [first, second]
    assert repair.future.is_damaged(first)
    assert not repair.future.is_damaged(first + size)
    plug = repair.future.record_at(first)
    assert plug is not None
    assert (plug.topic, plug.size) == (FILLER_TOPIC, size)


def test_a_filler_takes_time_and_host_from_the_record_behind_it(built: StoreBuilder) -> None:
    records = records_of(built)
    change(built, records[3][0] + 100, b"\xff" * 20)
    repair = repaired(built)
    plug, behind = (repair.future.record_at(records[number][0]) for number in (3, 4))
    assert plug is not None and behind is not None
    assert (plug.store_timestamp, plug.store_host) == (behind.store_timestamp, behind.store_host)


def test_the_filler_behind_all_records_takes_them_from_the_one_before(built: StoreBuilder) -> None:
    records = records_of(built)
    change(built, records[-1][0] + 100, b"\xff" * 20)
    repair = repaired(built)
    plug, before = (repair.future.record_at(records[number][0]) for number in (-1, -2))
    assert plug is not None and before is not None
    assert plug.store_timestamp == before.store_timestamp
    assert repair.future.end_offset == built.offset


def test_lost_messages_are_named_from_queue_units(built: StoreBuilder) -> None:
    (first, size), (second, other) = records_of(built)[6:8]
    change(built, first, bytes(size + other))
    repair = repaired(built)
    assert [(lost.topic, lost.queue_id, lost.queue_offset, lost.physical_offset, lost.size) for lost in repair.lost] == [
        ("TopicA", 0, 3, first, size),
        ("TopicA", 1, 3, second, other),
    ]
    assert {unit.position for unit in repair.future.lost_units} == {first, second}


@pytest.mark.parametrize("bits", [SysFlag.TRANSACTION_PREPARED, SysFlag.TRANSACTION_ROLLBACK])
@pytest.mark.parametrize("number", [0, 1, 20])  # the first two are those at queue offset 0
def test_a_type_that_takes_a_record_out_of_its_queue_is_mended(built: StoreBuilder, bits: int, number: int) -> None:
    records = records_of(built)
    position = records[number][0]
    field = StoreView(built.root, built.settings).records[number].fields["sys_flag"]
    change(built, position - position % built.log_file_size + field.offset, bits.to_bytes(field.width, "big"))
    repair = repaired(built)
    assert repair.lost == ()
    record = repair.future.record_at(position)
    assert record is not None
    assert record.sys_flag == 0
    assert future_records(repair) == records


def test_without_queues_the_header_of_a_lost_record_names_it(built: StoreBuilder) -> None:
    (first, size), (second, _) = records_of(built)[6], records_of(built)[9]
    change(built, first + 100, b"\xff" * 20)  # the body alone
    change(built, second + 84, b"\xff" * 100)  # everything behind the header
    shutil.rmtree(built.root / "consumequeue")
    assert [(lost.topic, lost.queue_id, lost.queue_offset, lost.size) for lost in repaired(built).lost] == [
        ("TopicA", 0, 3, size),
        ("TopicA", 1, 4, size),  # its topic is known by the gap in its queue
    ]


@pytest.mark.parametrize("gone", [(6, 8), (0, 3), (20, 21)])
def test_without_queues_the_queue_offsets_around_a_hole_name_what_is_lost(built: StoreBuilder, gone: tuple[int, int]) -> None:
    records = records_of(built)
    start, end = records[gone[0]][0], records[gone[1]][0]
    change(built, start, bytes(end - start))
    shutil.rmtree(built.root / "consumequeue")

    lost = repaired(built).lost

    assert sorted((one.topic, one.queue_id, one.queue_offset) for one in lost) == sorted(
        ("TopicA", number % 2, number // 2) for number in range(*gone)
    )
    assert [one.physical_offset for one in lost] == [position for position, _ in records[slice(*gone)]]


def test_a_record_of_another_place_is_not_taken_for_one_of_this(built: StoreBuilder) -> None:
    """A misplaced write: sound in itself, but its own queue unit points to where it belongs."""
    records = records_of(built)
    source, target = records[14], records[25]
    assert source[1] == target[1]
    view = StoreView(built.root, built.settings)
    old = next(record for record in view.records if record.offset == source[0])
    change(built, target[0], view.read(old.path)[old.position : old.end])
    (lost,) = repaired(built).lost
    assert (lost.physical_offset, lost.queue_id, lost.queue_offset) == (target[0], 1, 12)
    assert lost.why == "it is a record of another place"


def test_a_stray_record_that_ends_before_the_next_one_takes_no_other_with_it(tmp_path: Path) -> None:
    """The bytes between are too few for a filler: they and the stray record get one together."""
    builder = StoreBuilder(tmp_path / "store", log_file_size=4096)
    for number in range(12):
        builder.message(body=bytes([number]) * (200 if number != 6 else 190))
    builder.build()
    records = records_of(builder)
    source, target = records[6], records[3]
    assert 0 < target[1] - source[1] < 20
    view = StoreView(builder.root, builder.settings)
    stray = next(record for record in view.records if record.offset == source[0])
    change(builder, target[0], view.read(stray.path)[stray.position : stray.end])

    repair = repaired(builder)

    assert [lost.physical_offset for lost in repair.lost] == [target[0]]
    assert [place for place, _ in future_records(repair)] == [place for place, _ in records if place != target[0]]


def test_a_mended_record_is_not_lost_elsewhere(tmp_path: Path) -> None:
    """The first record of a queue is put right, so the end of an earlier file, of which nothing tells, held no message of it."""
    builder = StoreBuilder(tmp_path / "store", log_file_size=4096)
    for number in range(24):
        builder.message(queue_id=int(number > 17), body=bytes([number]) * 200)
    builder.build()
    view = StoreView(builder.root, builder.settings)
    end = max(record.end for record in view.records if record.path == view.records[0].path)
    change(builder, end, bytes(4096 - end))
    first = view.records[18]
    assert first.path != view.records[0].path
    change(builder, first.offset - first.position + first.fields["sys_flag"].offset, b"\xff" * 4)

    assert repaired(builder).lost == ()


def test_both_records_below_a_longer_stray_one_are_named_at_their_places(tmp_path: Path) -> None:
    """It covers one record and the head of the next; a hole follows it, and the queue entry of the second one points into the stray one."""
    builder = StoreBuilder(tmp_path / "store", log_file_size=8192)
    for number in range(12):
        builder.message(body=bytes([number]) * (200 if number != 6 else 290))
    builder.build()
    records = records_of(builder)
    view = StoreView(builder.root, builder.settings)
    stray = next(record for record in view.records if record.offset == records[6][0])
    change(builder, records[2][0], view.read(stray.path)[stray.position : stray.end])

    repair = repaired(builder)

    assert [(lost.physical_offset, lost.size) for lost in repair.lost] == records[2:4]
    assert [lost.queue_offset for lost in repair.lost] == [2, 3]
    assert [place for place, _ in future_records(repair)] == [place for place, _ in records[:2] + records[4:]]


def test_a_release_that_does_not_read_long_topics_loses_their_messages(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store").message().message(topic="t" * 200).message()
    builder.build()
    assert repaired(builder, "5.1.0").empty
    (lost,) = repaired(builder, "4.9.8").lost
    assert lost.topic == "t" * 200


def test_crcs_that_are_demanded_of_records_without_them_are_refused(built: StoreBuilder) -> None:
    with pytest.raises(RefusedError, match="40 records carry no property CRC"):
        repaired(built, forceVerifyPropCRC="true")
    assert repaired(built, "4.9.8", forceVerifyPropCRC="true").empty  # which does not know the setting


def test_a_wrong_file_length_setting_is_refused(built: StoreBuilder) -> None:
    with pytest.raises(RefusedError, match="mappedFileSizeCommitLog is 8192, but the files of the log have 4096 bytes"):
        repaired(built, mappedFileSizeCommitLog="8192")


@pytest.mark.parametrize("by", [512, -512, 1, -1])
def test_a_single_file_of_another_length_is_brought_to_the_given_one(by: int, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store", log_file_size=4096)
    for _ in range(5):
        builder.message()
    builder.build()
    (path,) = (builder.root / "commitlog").iterdir()
    with path.open("r+b") as stream:
        stream.truncate(4096 + by)
    repair = repaired(builder, mappedFileSizeCommitLog="4096")
    assert not repair.lost
    assert [(edit.path.name, edit.fate) for edit in repair.files] == [(path.name, "replaced")]


def test_a_single_file_that_another_length_fits_is_refused(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store", log_file_size=4096)
    while builder.offset < 4000:
        builder.message()
    builder.build()
    for path in sorted((builder.root / "commitlog").iterdir())[1:]:
        path.unlink()
    for size in ("8192", "2048"):
        with pytest.raises(RefusedError, match=f"mappedFileSizeCommitLog is {size}"):
            repaired(builder, mappedFileSizeCommitLog=size)


def test_a_missing_file_is_made_of_fillers_at_the_known_places(built: StoreBuilder) -> None:
    inside = [pair for pair in records_of(built) if 4096 <= pair[0] < 8192]
    (built.root / "commitlog" / offset_to_file_name(4096)).unlink()
    repair = repaired(built)
    assert [(lost.physical_offset, lost.size) for lost in repair.lost] == inside
    assert [(repair.future.record_at(start) or decode_record(b"")).size for start, _ in inside] == [size for _, size in inside]
    (edit,) = repair.files
    assert (edit.path.name, edit.fate) == (offset_to_file_name(4096), "created")


def test_messages_of_an_emptied_first_file_are_lost_not_expired(built: StoreBuilder) -> None:
    first = built.root / "commitlog" / offset_to_file_name(0)
    inside = [pair for pair in records_of(built) if pair[0] < first.stat().st_size]
    os.truncate(first, 0)
    repair = repaired(built)
    assert [(lost.physical_offset, lost.size) for lost in repair.lost] == inside
    (edit,) = repair.files
    assert (edit.path, edit.fate) == (first, "replaced")


@pytest.mark.parametrize("wrong", [(8, BLANK_MAGIC), (None, 0xDAA320A7)], ids=["size", "magic"])
def test_a_blank_in_front_of_an_old_one_is_no_lost_message(built: StoreBuilder, wrong: tuple[int | None, int]) -> None:
    file = StoreView(built.root, built.settings).log_files[0]
    assert file.blank is not None
    left, records = built.log_file_size - file.blank, records_of(built)
    change(built, built.log_file_size - 20, BLANK.build({"total_size": 20, "magic_code": BLANK_MAGIC}))
    change(built, file.blank, BLANK.build({"total_size": wrong[0] or left, "magic_code": wrong[1]}))
    change(built, file.blank + 8, b"old bytes")
    repair = repaired(built)
    assert repair.lost == ()
    assert future_records(repair) == records
    (patch,) = repair.future.patches
    assert patch.data == BLANK.build({"total_size": left, "magic_code": BLANK_MAGIC})


def test_files_that_may_lie_in_a_directory_that_is_not_there_are_not_made_anew(tmp_path: Path) -> None:
    store = damaged("4.9.8-multipath", "log-dir-removed", tmp_path)
    with pytest.raises(RefusedError, match="commitlog, one of the directories"):
        store.recover()
    (store.root / "commitlog").mkdir()
    result = store.recover()
    assert (result.errors, result.left) == ({}, 0)


def test_a_log_without_a_record_is_not_thrown_away(built: StoreBuilder) -> None:
    for path in (built.root / "commitlog").iterdir():
        path.write_bytes(b"\xa5" * 4096)
    with pytest.raises(RefusedError, match="not one record"):
        repaired(built)


STORES: list[tuple[str, str]] = [
    (base, damage)
    for base in ("5.5.1-lmq", "5.3.3-transactions", "5.1.4-batchcq", "5.5.1-propcrc", "5.5.1-ipv6", "5.1.4-longtopic", "5.3.3-cqext")
    for damage in ("body-flip-mid", "zero-4k-mid")
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("base", "damage"), [*STORES, ("5.5.1-manyfiles", "file-missing-middle"), ("5.5.1-multipath", "body-flip-mid")])
def test_stores_of_every_kind_are_salvaged(base: str, damage: str, tmp_path: Path) -> None:
    store = damaged(base, damage, tmp_path)
    result = store.recover()
    assert (result.errors, result.left) == ({}, 0)
    changes_nothing(store.predict())


@pytest.mark.parametrize("base", ["4.9.8-transactions", "5.3.3-transactions"])
def test_every_queued_message_of_a_lost_last_file_is_named(base: str, tmp_path: Path) -> None:
    store = damaged(base, "file-missing-last", tmp_path)
    end = store.open().commitlog.files[-1].end

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    named = {lost.physical_offset for lost in result.plan.lost if lost.topic is not None}
    assert named == {message.position for message in messages_of(base) if message.position >= end}
    # Index entries name messages of transactions that no queue has.
    indexed = {lost.physical_offset for lost in result.plan.lost if lost.topic is None}
    view = StoreView(stores.sample_store(base), stores.case(base).settings(stores.sample_store(base)))
    assert indexed <= {record.offset for record in view.records if record.offset >= end}


@pytest.mark.parametrize("base", ["5.1.4-batchcq", "5.3.3-batchcq-crash", "5.5.1-batchcq"])
def test_a_queue_offset_that_the_batch_queue_knows_better_is_mended(base: str, tmp_path: Path) -> None:
    store = damaged(base, "field-queueoffset-mid", tmp_path)
    before = {message.position: message.data for message in messages_of(base)}

    result = store.recover()

    assert (result.errors, result.left, result.plan.lost) == ({}, 0, ())
    assert {position: store.log_bytes(position, len(data)) for position, data in before.items()} == before


def test_fillers_carry_the_property_crc_where_it_is_demanded(tmp_path: Path) -> None:
    store = damaged("5.5.1-propcrc", "body-flip-mid", tmp_path)
    forced = {**stores.case("5.5.1-propcrc").settings(store.root), "forceVerifyPropCRC": "true"}
    repair = salvage(Store.open(store.root, settings=forced), store.release, staging=staged(store.root))
    (start, _), *_ = repair.future.damages
    plug = repair.future.record_at(start)
    assert plug is not None
    assert list(plug.properties) == ["__CRC32#"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("damage", ["body-flip-mid", "zero-4k-mid", "file-missing-middle", "cq-all-removed+body-flip-mid"])
def test_placeholders_stand_in_queue_and_log(damage: str, tmp_path: Path) -> None:
    store = damaged("5.3.3-plain", damage, tmp_path)
    result = store.recover(lost_units=LostUnits.PLACEHOLDER)
    assert (result.errors, result.left) == ({}, 0)
    for lost in result.plan.lost:
        assert lost.topic is not None and lost.physical_offset is not None and lost.size is not None
        record = decode_record(store.log_bytes(lost.physical_offset, lost.size))
        assert (record.topic, record.queue_id, record.queue_offset) == (lost.topic, lost.queue_id, lost.queue_offset)
        assert record.properties == {"RMQSTORE_PLACEHOLDER": "lost"}
        assert store.unit((record.topic, record.queue_id, record.queue_offset)) == (lost.physical_offset, lost.size)
    changes_nothing(store.predict())


def test_dledger_is_refused(fresh_store: Callable[[str], Path]) -> None:
    store = Store.open(fresh_store("broker-5.3.3-dledger-clean"))
    with pytest.raises(RefusedError, match="DLedger group"):
        salvage(store, RELEASE, staging=staged(store.root))


def test_an_older_release_gets_a_store_it_can_read(tmp_path: Path) -> None:
    store = Damaged("5.1.4-longtopic", stores.fresh_store("5.1.4-longtopic", tmp_path))
    result = store.recover(release="4.9.8")
    assert (result.errors, result.left) == ({}, 0)
    assert all(len(lost.topic or "") > 127 for lost in result.plan.lost)
    changes_nothing(store.predict("4.9.8"))


@pytest.mark.parametrize("damage", ["body-flip-last", "torn-tail-half", "file-missing-last"])
def test_the_strategy_broker_cuts_where_a_broker_cuts(damage: str, tmp_path: Path) -> None:
    store = damaged("5.3.3-plain-crash", damage, tmp_path)
    would = store.predict()
    result = store.recover(Strategy.BROKER)
    assert result.left == 0
    assert would.lost is not None
    assert len(result.plan.lost) == would.lost.messages
    after = store.predict()
    changes_nothing(after)
    assert after.after_load.max_phy_offset == would.after_load.max_phy_offset


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "damage", ["file-middle-empty", "file-last-short", "file-middle-long", "file-foreign-samesize", "file-subdir", "checkpoint-directory"]
)
@pytest.mark.parametrize("base", ["4.9.8-plain", "5.3.3-plain-crash"])
def test_the_strategy_minimal_lets_a_broker_start(base: str, damage: str, tmp_path: Path) -> None:
    store = damaged(base, damage, tmp_path)
    result = store.recover(Strategy.MINIMAL)
    assert result.left == 0
    assert not result.plan.lost
    assert store.predict().starts is True
