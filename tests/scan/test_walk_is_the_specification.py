"""The compiled walker gives what the declarations say, field by field, for sound, damaged and hostile bytes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rmqstore.formats.crc import body_crc
from rmqstore.formats.delay import DEFAULT_DELAY_LEVELS
from rmqstore.formats.index import message_keys
from rmqstore.formats.javahash import index_key_hash, parse_java_integer
from rmqstore.formats.naming import SCHEDULE_TOPIC
from rmqstore.formats.properties import INNER_NUM, property_crc_matches
from rmqstore.formats.record import MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2, Record, RecordError, SysFlag, decode_record
from rmqstore.scan.columns import Check, Fault, Mark, Stop
from tests.scan.samples import NOW, V6, encoded, varied, with_property_crc
from tests.scan.walking import Walked, walked
from tests.support.strategies import HOSTILE_LENGTHS, damaged, hostile_files, logs, records

COLUMNS = (
    "physical_offset", "queue_offset", "store_timestamp", "born_timestamp", "prepared_transaction_offset", "size", "queue_id", "sys_flag",
    "flag", "body_crc", "reconsume_times", "body_length", "properties_length",
)  # fmt: skip
INDEPENDENT_FAULTS = (
    Fault.BODY_CRC | Fault.PHYSICAL_OFFSET | Fault.PROPERTY_CRC | Fault.QUEUE_ID | Fault.RECONSUME_TIMES | Fault.STORE_TIMESTAMP
)


def expected_faults(found: Record, raw: bytes, position: int) -> Fault:
    """The faults that need no judgement of what is plausible."""
    faults = Fault(0)
    # brokers skip the check of an empty body; they store 0 there
    faults |= Fault.BODY_CRC if found.body_crc != (body_crc(found.body) if found.body else 0) else Fault(0)
    faults |= Fault.PHYSICAL_OFFSET if found.physical_offset != position else Fault(0)
    faults |= Fault.PROPERTY_CRC if property_crc_matches(raw, found.properties) is False else Fault(0)
    faults |= Fault.QUEUE_ID if found.queue_id < 0 else Fault(0)
    faults |= Fault.RECONSUME_TIMES if found.reconsume_times < 0 else Fault(0)
    return faults | (Fault.STORE_TIMESTAMP if found.store_timestamp <= 0 else Fault(0))


def is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def expect_row(result: Walked, row: int, found: Record, raw: bytes, position: int) -> None:
    columns = result.records[row]
    assert int(columns["position"]) == position
    for name in COLUMNS:
        assert int(columns[name]) == getattr(found, name), name
    assert result.topic(row).decode("utf-8", "replace") == found.topic or not is_text(result.topic(row))
    assert result.queue(row) == (int(columns["topic"]), found.queue_id)
    assert Fault(int(columns["faults"])) & INDEPENDENT_FAULTS == expected_faults(found, raw, position)
    batch_size = parse_java_integer(found.properties.get(INNER_NUM, ""), 1, 32767)
    assert int(columns["batch_size"]) == (batch_size or 1)
    marks = Mark(int(columns["marks"]))
    if Mark.MALFORMED_TEXT in marks:
        assert not is_text(raw)
        return
    expected_code = found.tags_code(DEFAULT_DELAY_LEVELS)
    if expected_code is None:
        assert Fault.DELAY in Fault(int(columns["faults"]))
    else:
        assert Fault.DELAY not in Fault(int(columns["faults"]))
        # Java adds with wrap-around
        assert (int(columns["tags_code"]) - expected_code) % 2**64 == 0
    if is_text(result.topic(row)):
        expect_keys(result, row, found)


def expect_keys(result: Walked, row: int, found: Record) -> None:
    rolled_back = found.sys_flag & SysFlag.TRANSACTION_MASK == SysFlag.TRANSACTION_ROLLBACK
    keys = [] if rolled_back else message_keys(found.properties, True)
    assert result.key_hashes(row) == [index_key_hash(found.topic, key) for key in keys]
    assert int(result.records["key_count"][row]) == len(keys)
    tags = [bool(key["is_tag"]) for key in result.keys[result.keys["record"] == row]]
    assert tags == [number == len(keys) - 1 and "TAGS" in found.properties for number in range(len(keys))]


def expect_same(data: bytes, origin: int = 0) -> Walked:
    """Both walk `data` from its start until something is no record; returns what the kernel said."""
    result = walked(data, origin=origin)
    position = 0
    for row in range(len(result.records)):
        found = decode_record(data, position)
        expect_row(result, row, found, data[position : position + found.size], origin + position)
        position += found.size
    assert result.position == position
    if result.stop is not Stop.BATCH_FULL:
        with pytest.raises(RecordError) as stopped:
            decode_record(data, position)
        assert result.stop.name == stopped.value.reason.name
    return result


@pytest.mark.parametrize("kind", varied())
def test_a_sound_record(kind: str) -> None:
    result = expect_same(varied()[kind])

    assert len(result.records) == 1
    assert result.stop is Stop.TRUNCATED
    assert int(result.records["faults"][0]) & int(INDEPENDENT_FAULTS) == 0


@pytest.mark.parametrize("kind", ["v2-ipv6", "property-crc", "delayed", "unicode"])
def test_every_single_bit_flipped(kind: str) -> None:
    data = varied()[kind]
    for bit in range(8 * len(data)):
        expect_same(flipped(data, bit))


@pytest.mark.parametrize("kind", varied())
def test_some_bits_flipped(kind: str) -> None:
    data = varied()[kind]
    for bit in random.Random(7).sample(range(8 * len(data)), 120):
        expect_same(flipped(data, bit))


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 0x80 >> bit % 8
    return bytes(changed)


@pytest.mark.parametrize("kind", varied())
def test_every_length_of_file(kind: str) -> None:
    data = varied()[kind]
    for length in range(len(data)):
        assert len(expect_same(data[:length]).records) == 0


@given(records())
@settings(max_examples=100, deadline=None)
def test_any_sound_record(data: bytes) -> None:
    expect_same(data)


@given(logs(), st.integers(0, 2**40))
@settings(max_examples=60, deadline=None)
def test_any_log(data: bytes, origin: int) -> None:
    expect_same(data, origin)


@given(st.one_of(damaged(records()), damaged(logs()), hostile_files()))
@settings(max_examples=100, deadline=None)
def test_any_damage(data: bytes) -> None:
    expect_same(data)


@given(st.sampled_from(sorted(varied())), st.data())
@settings(max_examples=100, deadline=None)
def test_hostile_lengths_in_every_field(kind: str, draw: st.DataObject) -> None:
    data = bytearray(varied()[kind])
    for position in draw.draw(st.lists(st.integers(0, len(data) - 4), min_size=1, max_size=3)):
        width = draw.draw(st.sampled_from([1, 2, 4]))
        value = draw.draw(HOSTILE_LENGTHS) % 256**width
        data[position : position + width] = value.to_bytes(width, "big")
    expect_same(bytes(data))


@given(st.binary(max_size=80), st.sampled_from([b"TopicA", SCHEDULE_TOPIC.encode(), "日".encode()]))
@settings(max_examples=100, deadline=None)
def test_any_property_block(block: bytes, topic: bytes) -> None:
    expect_same(encoded(properties=block, topic=topic))


NAMES = ["TAGS", "KEYS", "UNIQ_KEY", "DELAY", "INNER_NUM", "INNER_BASE", "TAG", "TAGSX", "__CRC32#", "UNIQ", "DELAYED", ""]


@given(
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(["\x01", "", "\x01\x01"]), st.text(alphabet="ab 0123-+é\x01😀", max_size=12))
    ),
    st.sampled_from([b"TopicA", SCHEDULE_TOPIC.encode()]),
)
@settings(max_examples=100, deadline=None)
@example([("INNER_NUM", "\x01", "10"), ("INNER_NUM", "\x01", "0")], b"TopicA")
@example([("INNER_NUM", "\x01", "2"), ("INNER_NUM", "\x01", "")], b"TopicA")
def test_blocks_of_names_that_matter(pieces: list[tuple[str, str, str]], topic: bytes) -> None:
    block = "\x02".join("".join(piece) for piece in pieces).encode()
    expect_same(encoded(properties=block, topic=topic))


@pytest.mark.parametrize(
    "delay", ["1", "0", "-3", "18", "19", "2147483647", "2147483648", "+2", "007", "00000000000002", "", "1 ", "x", "-", "1x"]
)
def test_delay_levels(delay: str) -> None:
    block = f"DELAY\x01{delay}\x02TAGS\x01TagA\x02".encode()

    expect_same(encoded(topic=SCHEDULE_TOPIC.encode(), properties=block))
    plain = expect_same(encoded(properties=block))
    assert Fault.DELAY not in Fault(int(plain.records["faults"][0]))


def test_without_delay_levels_the_schedule_topic_keeps_the_hash() -> None:
    data = encoded(topic=SCHEDULE_TOPIC.encode(), properties={"DELAY": "3", "TAGS": "TagA"})

    assert int(walked(data, delay_levels=()).records["tags_code"][0]) == decode_record(data).tags_code(())


@pytest.mark.parametrize("count", ["1", "12", "32767", "32768", "0", "-1", "x", "0012"])
def test_records_of_several_messages(count: str) -> None:
    result = expect_same(encoded(properties={"INNER_NUM": count, "INNER_BASE": "5"}))

    assert Mark.INNER_BATCH in Mark(int(result.records["marks"][0]))


def test_marks() -> None:
    def marks(**changes: Any) -> Mark:
        return Mark(int(walked(encoded(**changes)).records["marks"][0]))

    assert marks() == Mark(0)
    assert marks(properties={"INNER_MULTI_DISPATCH": "a"}) == Mark.MULTI_DISPATCH
    assert marks(properties={"INNER_BASE": "1"}) == Mark.INNER_BATCH
    assert marks(properties=b"TAGS\x01\xff\x02") == Mark.MALFORMED_TEXT
    assert marks(properties=b"KEYS\x01a \xed\xa0\x80\x02") == Mark.MALFORMED_TEXT
    assert marks(properties=b"WAIT\x01\xff\x02") == Mark(0)
    assert marks(topic=SCHEDULE_TOPIC.encode(), properties={"DELAY": "1"}) == Mark.SCHEDULED
    assert Mark(int(walked(with_property_crc()).records["marks"][0])) == Mark.PROPERTY_CRC


@pytest.mark.parametrize(
    ("fault", "changes"),
    [
        (Fault.BODY_CRC, {"body_crc": 1}),
        (Fault.BODY_CRC, {"body": b"", "body_crc": 1}),
        (Fault.PHYSICAL_OFFSET, {"physical_offset": 1}),
        (Fault.QUEUE_ID, {"queue_id": -1}),
        (Fault.SYS_FLAG, {"sys_flag": 1 << 11}),
        (Fault.SYS_FLAG, {"sys_flag": 4 << 8}),
        (Fault.STORE_TIMESTAMP, {"store_timestamp": 0, "born_timestamp": 0}),
        (Fault.BORN_TIMESTAMP, {"born_timestamp": -1}),
        (Fault.BORN_TIMESTAMP, {"born_timestamp": NOW + 11 * 365 * 86_400_000}),
        (Fault.PREPARED_OFFSET, {"prepared_transaction_offset": 5}),
        (Fault.PREPARED_OFFSET, {"prepared_transaction_offset": -1, "sys_flag": 8}),
        (Fault.TOPIC, {"topic": b""}),
        (Fault.TOPIC, {"topic": b"a/b"}),
        (Fault.TOPIC, {"topic": b"a\xff"}),
        (Fault.COMPRESSION, {"sys_flag": 1}),
        (Fault.COMPRESSION, {"sys_flag": 1, "body": b""}),
        (Fault.COMPRESSION, {"sys_flag": 0x101, "body": b"\x04\x22\x4d\x19"}),
        (Fault.HOST, {"born_host": "10.9.8.7:65536"}),
        (Fault.HOST, {"store_host": "10.9.8.7:-1"}),
        (Fault.RECONSUME_TIMES, {"reconsume_times": -1}),
    ],
)
def test_one_fault_is_one_bit(fault: Fault, changes: dict[str, Any]) -> None:
    assert Fault(int(walked(encoded(**changes)).records["faults"][0])) == fault


@pytest.mark.parametrize(
    "changes",
    [
        {"born_timestamp": NOW + 86_400_000},
        {"topic": b"%RETRY%group-1_x|y"},
        {"sys_flag": 1, "body": b"\x78\x9c\x03\x00\x00\x00\x00\x01"},
        {"sys_flag": 0x101, "body": b"\x04\x22\x4d\x18"},
        {"sys_flag": 0x201, "body": b"\x28\xb5\x2f\xfd"},
        {"sys_flag": 0x301, "body": b"\x78\x01\x03\x00"},
        {"born_host": "10.9.8.7:65535"},
        {"sys_flag": int(SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH | SysFlag.MULTI_TAGS)},
    ],
)
def test_what_brokers_write_is_no_fault(changes: dict[str, Any]) -> None:
    assert int(walked(encoded(**changes)).records["faults"][0]) == 0


def test_the_prepared_offset_of_a_commit_lies_before_it() -> None:
    data = encoded(sys_flag=int(SysFlag.TRANSACTION_COMMIT), prepared_transaction_offset=999, physical_offset=1000)

    assert int(walked(data, origin=1000).records["faults"][0]) == 0
    assert Fault.PREPARED_OFFSET in Fault(int(walked(data, origin=999).records["faults"][0]))


def test_checks_that_are_not_asked_for_are_not_made() -> None:
    data = bytearray(with_property_crc(body_crc=1, properties={"KEYS": "k"}))
    data[-3] ^= 1

    result = walked(bytes(data), checks=Check(0))

    assert int(result.records["faults"][0]) == 0
    assert len(result.keys) == 0


@pytest.mark.parametrize("magic", [MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2])
def test_negative_topic_and_property_lengths(magic: int) -> None:
    data = bytearray(encoded(magic_code=magic, topic=b"T" * 100, properties=b""))
    topic_length = 88 + len(b"hello")
    data[topic_length] = 0x80
    assert expect_same(bytes(data)).stop is Stop.TOPIC_LENGTH

    data = bytearray(encoded(magic_code=magic, topic=b"T", properties=b""))
    data[-2] = 0xFF
    assert expect_same(bytes(data)).stop is Stop.PROPERTIES_LENGTH


@pytest.mark.parametrize(
    ("size", "stop"),
    [
        (2**31 - 1, Stop.SIZE_BEYOND_FILE),
        (-1, Stop.SIZE_TOO_SMALL),
        (-(2**31), Stop.SIZE_TOO_SMALL),
        (0, Stop.SIZE_TOO_SMALL),
        (90, Stop.SIZE_TOO_SMALL),
    ],
)
def test_impossible_sizes(size: int, stop: Stop) -> None:
    data = size.to_bytes(4, "big", signed=True) + encoded()[4:]

    assert expect_same(data).stop is stop


@pytest.mark.parametrize("born", [V6, "10.9.8.7:10911"])
def test_equal_store_hosts_have_equal_numbers(born: str) -> None:
    hosts = ["10.9.8.7:10911", "10.9.8.7:10912", "10.9.8.8:10911"]
    numbers = [int(walked(encoded(store_host=host, born_host=born)).records["store_host"][0]) for host in hosts]

    assert len(set(numbers)) == 3
    assert numbers[0] == int(walked(encoded(store_host=hosts[0], queue_offset=99)).records["store_host"][0])
    assert int(walked(encoded(store_host=V6)).records["store_host"][0]) not in numbers


def test_a_record_that_the_window_cuts_is_asked_for_again() -> None:
    first = encoded()
    data = first + encoded(physical_offset=len(first))
    for end in range(len(data)):
        result = walked(data, end=end)
        assert result.stop is Stop.WINDOW_END
        assert result.position == (0 if end < len(first) else len(first))
        assert len(result.records) == (0 if end < len(first) else 1)


def test_a_full_batch_stops_between_records() -> None:
    size = len(encoded())
    data = b"".join(encoded(physical_offset=number * size) for number in range(5))

    result = walked(data, batch=3)

    assert (result.stop, result.position, len(result.records)) == (Stop.BATCH_FULL, 3 * size, 3)


def test_random_overwrites() -> None:
    generator = random.Random(20)
    kinds = list(varied().values())
    for _ in range(400):
        data = bytearray(generator.choice(kinds))
        start = generator.randrange(len(data))
        noise = generator.randbytes(generator.randint(1, 24))
        data[start : start + len(noise)] = noise
        expect_same(bytes(data))
