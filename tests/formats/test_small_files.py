"""Checkpoint, abort, lock, epoch file, DLedger and the position file of the compaction store."""

from __future__ import annotations

import json
import zlib

import pytest
from construct import ConstructError
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqstore.formats import abort, checkpoint, compaction, dledger, epoch, lock
from rmqstore.formats.compaction import CompactedQueue
from rmqstore.formats.epoch import EpochEntry, EpochFile

CHECKPOINT_5_5_1 = bytes.fromhex("000001a1fd89dc0a000001a1fd899342000001a1fd89dbfe000000000000000000000000000000000000000000341b4d")


def test_a_checkpoint_that_5_5_1_wrote() -> None:
    raw = CHECKPOINT_5_5_1 + bytes(4048)
    parsed = checkpoint.parse_checkpoint(raw)
    assert {name: value for name, value in parsed.items() if name not in {"_io", "reserved"}} == {
        "physic_msg_timestamp": 1795255032842,
        "logics_msg_timestamp": 1795255014210,
        "index_msg_timestamp": 1795255032830,
        "master_flushed_offset": 0,
        "confirm_phy_offset": 0,
        "logics_physical_offset": 3414861,
    }
    assert checkpoint.CHECKPOINT.build(parsed) == raw


def test_a_checkpoint_of_another_length_is_read_as_the_broker_reads_it() -> None:
    assert checkpoint.parse_checkpoint(b"").physic_msg_timestamp == 0
    assert checkpoint.parse_checkpoint(CHECKPOINT_5_5_1[:12]).physic_msg_timestamp == 1795255032842
    assert checkpoint.parse_checkpoint(CHECKPOINT_5_5_1 + bytes(9000)).logics_physical_offset == 3414861


def test_a_checkpoint_is_built_from_its_six_fields() -> None:
    fields = dict.fromkeys(list(checkpoint.parse_checkpoint(b"").keys())[1:-1], 1)
    assert len(fields) == 6
    assert checkpoint.CHECKPOINT.build(fields) == (bytes(7) + b"\1") * 6 + bytes(4048)


@pytest.mark.parametrize(
    ("content", "pid"), [(b"", None), (b"19836", 19836), (b"800", 800), (b"19836\n", None), (b"x", None), (b"\xff", None)]
)
def test_process_id_of_an_abort_file(content: bytes, pid: int | None) -> None:
    assert abort.process_id(content) == pid


@given(content=st.binary(max_size=20))
def test_any_abort_file_is_built_as_it_was_parsed(content: bytes) -> None:
    assert abort.ABORT.build(abort.ABORT.parse(content)) == content


def test_the_lock_file() -> None:
    assert lock.LOCK.build({}) == b"lock"
    assert lock.LOCK.parse(b"lock").mark == b"lock"
    with pytest.raises(ConstructError):
        lock.LOCK.parse(b"LOCK")


ENTRIES = st.lists(st.builds(EpochEntry, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)), min_size=1, max_size=5).map(tuple)


def test_an_epoch_file() -> None:
    lines = b"1-0\n2-1073741824\n"
    data = b"2\n%d\n%s" % (zlib.crc32(lines) & 0x7FFFFFFF, lines)
    file = epoch.parse_epoch_file(data)
    assert file.entries == (EpochEntry(1, 0), EpochEntry(2, 1073741824))
    assert file.checksum_matches
    assert file.increases
    assert epoch.build_epoch_file(file) == data


@settings(deadline=None)
@given(entries=ENTRIES, checksum=st.integers(-(2**31), 2**31 - 1), separator=st.sampled_from(["\n", "\r\n"]))
def test_epoch_files_are_inverse(entries: tuple[EpochEntry, ...], checksum: int, separator: str) -> None:
    file = EpochFile(entries, checksum, separator)
    assert epoch.parse_epoch_file(epoch.build_epoch_file(file)) == file


@settings(deadline=None)
@given(entries=ENTRIES, separator=st.sampled_from(["\n", "\r\n"]))
def test_the_checksum_of_an_epoch_file(entries: tuple[EpochEntry, ...], separator: str) -> None:
    checksum = epoch.epoch_checksum(entries, separator)
    assert EpochFile(entries, checksum, separator).checksum_matches
    assert not EpochFile(entries, checksum ^ 1 or 2, separator).checksum_matches
    assert EpochFile(entries, epoch.NO_CHECKSUM, separator).checksum_matches


@pytest.mark.parametrize(("second", "increases"), [(EpochEntry(2, 5), True), (EpochEntry(1, 5), False), (EpochEntry(2, 4), False)])
def test_epochs_and_start_offsets_increase(second: EpochEntry, increases: bool) -> None:
    assert EpochFile((EpochEntry(1, 4), second), 0).increases is increases


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1\n0",
        b"1\n0\n1-0",
        b"2\n0\n1-0\n",
        b"1\n0\n1:0\n",
        b"1\n0\n-1-0\n",
        b"1\n0\nx-0\n",
        b"one\n0\n1-0\n",
        b"\xff\n0\n1-0\n",
        bytes(60),
    ],
)
def test_what_is_no_epoch_file(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        epoch.parse_epoch_file(data)


def test_entry_header_and_index_unit_that_a_dledger_broker_of_5_3_3_wrote() -> None:
    raw = bytes.fromhex("000000010000012800000000000001cb00000000000000000000000000100000000000000000000000000000000000f8")
    header = dledger.ENTRY_HEADER.parse(raw)
    assert (header.magic, header.size, header.index, header.term, header.pos) == (1, 296, 459, 0, 1048576)
    assert (header.channel, header.chain_crc, header.body_crc, header.body_len) == (0, 0, 0, 296 - 48)
    assert dledger.ENTRY_HEADER.build(header) == raw
    unit = dledger.INDEX_UNIT.parse(bytes.fromhex("00000001000000000000033a0000042a00000000000000010000000000000000"))
    assert (unit.magic, unit.pos, unit.size, unit.index, unit.term) == (1, 826, 1066, 1, 0)


def test_the_end_of_a_dledger_file() -> None:
    raw = bytes.fromhex("ffffffff00000020")
    assert dledger.END_OF_FILE.parse(raw).size == 32
    assert dledger.END_OF_FILE.build({"size": 32}) == raw
    assert dledger.DEFAULT_INDEX_FILE_SIZE == 167_772_160


@pytest.mark.parametrize(
    "data",
    [
        b'{\n\t"empty":true,\n\t"queueOffsetMap":{}\n}',  # 5.3.3
        b'{\n\t"empty":true,\n\t"queueOffsetMap":{\n\t\t\n\t}\n}',  # 5.4.0
    ],
)
def test_position_files_that_brokers_wrote(data: bytes) -> None:
    assert compaction.parse_positions(data) == {}


def test_a_position_file_without_entries_is_built_as_brokers_write_it() -> None:
    assert compaction.build_positions({}) == b'{\n\t"empty":true,\n\t"queueOffsetMap":{}\n}'
    assert compaction.build_positions({}, breaks_empty_table=True) == b'{\n\t"empty":true,\n\t"queueOffsetMap":{\n\t\t\n\t}\n}'


TOPICS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
POSITIONS = st.dictionaries(st.builds(CompactedQueue, TOPICS, st.integers(0, 2**31 - 1)), st.integers(-(2**63), 2**63 - 1), max_size=4)


@settings(deadline=None)
@given(positions=POSITIONS)
def test_position_files_are_inverse(positions: dict[CompactedQueue, int]) -> None:
    data = compaction.build_positions(positions)
    assert compaction.parse_positions(data) == positions
    assert compaction.build_positions(compaction.parse_positions(data)) == data
    assert json.loads(data)["empty"] is not bool(positions)


def test_the_queue_id_stands_behind_the_last_underscore() -> None:
    assert compaction.parse_positions(b'{"queueOffsetMap":{"topic_b_2":7}}') == {CompactedQueue("topic_b", 2): 7}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\0\0",
        b'{"queueOffsetMap":[]}',
        b'{"queueOffsetMap":{"a":1}}',
        b'{"queueOffsetMap":{"a_1":"x"}}',
        b"\xff",
    ],
)
def test_what_is_no_position_file(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        compaction.parse_positions(data)


def test_lengths_of_compaction_files() -> None:
    assert compaction.DEFAULT_QUEUE_FILE_SIZE == 10_485_746
    assert compaction.log_file_size(100 * 1024 * 1024) == 104_857_460
    assert compaction.log_file_size(1, 46) == 230
    assert compaction.log_file_size(46 * 7 + 22, 46) == 46 * 7
    assert compaction.log_file_size(46 * 7 + 23, 46) == 46 * 8
