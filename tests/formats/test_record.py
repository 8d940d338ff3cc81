"""Decoding of records: the bytes that real brokers wrote, and every reason to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import pytest
from construct import ConstructError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rmqstore.formats import message
from rmqstore.formats.delay import DEFAULT_DELAY_LEVELS
from rmqstore.formats.properties import build_properties, property_crc_matches
from rmqstore.formats.record import (
    BLANK,
    BLANK_MAGIC,
    MESSAGE,
    MESSAGE_MAGIC_V1,
    MESSAGE_MAGIC_V2,
    MIN_RECORD_SIZE_V1,
    RecordError,
    StopReason,
    decode_record,
    smallest_record,
    tags_code,
)
from rmqstore.formats.sysflag import CompressionType, TransactionType, compression_type

# Records as brokers wrote them, cut from stores of the release in the name.
PLAIN_5_4_0 = bytes.fromhex(
    "00000131daa320a74d0ac5d6000000000000000000000000000000000000000000000000000000000000018bcfe568000a01020300009c40000001a1fd7bbb46"
    "0a09080700002a9f0000000400000000000000000000006b5b2a574843374350272e55293d57432b5d46502d26552e4f42283750344d254b4c4c295b454d523a"
    "5754585c51315e4955492f3a4b5848412b3d46253b4c2448584133484b43254d204a3a3a22254c474c3c5c2a4c3025283a364f583056393b5f4b4d542850275e"
    "5e213e064f726465727300654b455953016475702020647570206b3020e994ae02554e49515f4b45590139444335373343303245433134443335343733423135"
    "3742353230394646413902434c55535445520144656661756c74436c757374657202757365725f70310176c3a936363702"
)
V2_5_1_4 = bytes.fromhex(
    "00000145daa320ab4bc05b46000000002de74f1f00000000000000000000000000005e7e000000000000018bcfe56b090a01020300009c55000001a1fd76b38e"
    "0a09080700002a9f0000000000000000000000000000001e284b4d5053265425515d4c22584f275b2a4d592c3e51224251533635492c00812552455452592567"
    "67676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767"
    "676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767004a554e49515f"
    "4b455901434243383037333538413741334544334341423543374644313637453642423502434c55535445520144656661756c74436c75737465720254414753"
    "01417c7c42"
)
BOTH_IPV6_5_5_1 = bytes.fromhex(
    "000000c2daa320a76ca42c86000000036f8afa170000000000000008000000000000dd73000000300000018bcfe5736b20010db80000000000000000dead0007"
    "00009c90000001a1fd76a06220010db80000000000000000dead000700002a9f0000000000000000000000000000000b2e474245213c5b2540232c06546f7069"
    "6341003e4b455953016b373920636f6d6d6f6e206f726465722d3102757365725f70320176c3a938383302434c55535445520144656661756c74436c75737465"
    "7202"
)
BORN_IPV6_4_9_8 = bytes.fromhex(
    "000000a9daa320a700000000000000000ddbfd0a000000000000001b00000000000168aa000000100000018bcfe57cf520010db80000000000000000dead0007"
    "00009cd2000001a1fd769b7e0a09080700002a9f000000000000000000000000000000000e2552455452592567726f75705f7800344b45595301647570202064"
    "7570206b31343520e994ae02434c55535445520144656661756c74436c75737465720254414753017a"
)
SCHEDULE_5_3_3 = bytes.fromhex(
    "000000eddaa320a70a93f9320000000e000000000000000000000001000000000000502b000000000000018bcfe56c0c0a01020300009c5c000001a1fd76924e"
    "0a09080700002a9f000000000000000000000000000000094e3559224b555c462a135343484544554c455f544f5049435f5858585800765245414c5f544f5049"
    "4301546f7069634102554e49515f4b455901313435304531463437444646423530363634443239304336324645343534424602757365725f70320176c3a93338"
    "3602434c55535445520144656661756c74436c75737465720244454c4159013135025245414c5f514944013302"
)
LZ4_5_5_1 = bytes.fromhex(
    "000000c7daa320a748c0d96b0000000100000000000000000000000b0000000000025b43000001010000018bcfe57aef0a01020300009cc3000001a1fd76802c"
    "0a09080700002a9f0000000000000000000000000000004304224d1860707334000000ff02636f6d707265737369626c6520313331201100ffffffffffffffff"
    "ffffffffffffffffffffffffffffffff815020313331200000000006546f706963410023434c55535445520144656661756c74436c7573746572025441475301"
    "e6a087e7adbe02"
)
INNER_BATCH_5_1_4 = bytes.fromhex(
    "0000012edaa320a75715faa100000001861b30d300000000000000140000000000001e37000000c00000018bcfe569030a01020300009c47000001a1fd76cae1"
    "0a09080700002a9f0000000000000000000000000000005a0000005a000000000000000000000000000000112a4c3c504f374c255d373d3c464d565742003355"
    "4e49515f4b4559014445443230414632344544373638393446383739373033414435353532313937025741495401747275650a4261746368546f706963006f49"
    "4e4e45525f42415345013230024b455953016b323302554e49515f4b455901424341383046354244444531423542373734443146433232434133364630383702"
    "434c55535445520144656661756c74436c7573746572025441475301e6a087e7adbe02494e4e45525f4e554d0131"
)
PROPERTY_CRC_5_5_1 = bytes.fromhex(
    "00000090daa320a75767df550000000000000000000000000000000100000000000016e5000000000000018bcfe5694d0a01020300009c49000001a1fd76e145"
    "0a09080700002a9f000000000000000000000000000000015209746f7069632d625f32002b434c55535445520144656661756c74436c7573746572025f5f4352"
    "43333223013430353636363132353002"
)
WRITTEN = {
    "plain-5.4.0": PLAIN_5_4_0,
    "v2-5.1.4": V2_5_1_4,
    "both-ipv6-5.5.1": BOTH_IPV6_5_5_1,
    "born-ipv6-4.9.8": BORN_IPV6_4_9_8,
    "schedule-5.3.3": SCHEDULE_5_3_3,
    "lz4-5.5.1": LZ4_5_5_1,
    "inner-batch-5.1.4": INNER_BATCH_5_1_4,
    "property-crc-5.5.1": PROPERTY_CRC_5_5_1,
}


@pytest.mark.parametrize("raw", WRITTEN.values(), ids=WRITTEN.keys())
def test_records_of_brokers_are_rebuilt_byte_for_byte(raw: bytes) -> None:
    assert MESSAGE.build(MESSAGE.parse(raw)) == raw
    record = decode_record(raw)
    assert record.size == len(raw)
    assert record.body_crc_matches


def test_every_field_of_a_record() -> None:
    body = b"""[*WHC7CP'.U)=WC+]FP-&U.OB(7P4M%KLL)[EMR:WTX\\Q1^IUI/:KXHA+=F%;L$HXA3HKC%M J::"%LGL<\\*L0%(:6OX0V9;_KMT(P'^^!>"""
    assert asdict(decode_record(PLAIN_5_4_0)) == {
        "physical_offset": 0,
        "size": 305,
        "magic": 0xDAA320A7,
        "body_crc": 1292551638,
        "queue_id": 0,
        "flag": 0,
        "queue_offset": 0,
        "sys_flag": 0,
        "born_timestamp": 1700000000000,
        "born_host": "10.1.2.3:40000",
        "store_timestamp": 1795254106950,
        "store_host": "10.9.8.7:10911",
        "reconsume_times": 4,
        "prepared_transaction_offset": 0,
        "body_length": 107,
        "body": body,
        "topic": "Orders",
        "properties": {
            "KEYS": "dup  dup k0 键",
            "UNIQ_KEY": "9DC573C02EC14D35473B157B5209FFA9",
            "CLUSTER": "DefaultCluster",
            "user_p1": "vé667",
        },
        "properties_length": 101,
    }


def test_a_v2_record_has_a_topic_of_more_than_127_bytes() -> None:
    record = decode_record(V2_5_1_4)
    assert (record.magic, record.physical_offset) == (MESSAGE_MAGIC_V2, 24190)
    assert record.topic == "%RETRY%" + "g" * 122
    assert record.tags == "A||B"


def test_ipv6_hosts() -> None:
    both = decode_record(BOTH_IPV6_5_5_1)
    assert (both.born_host, both.store_host) == ("[2001:db8::dead:7]:40080", "[2001:db8::dead:7]:10911")
    assert both.offset_message_id == "20010DB80000000000000000DEAD000700002A9F000000000000DD73"
    born = decode_record(BORN_IPV6_4_9_8)
    assert (born.born_host, born.store_host) == ("[2001:db8::dead:7]:40146", "10.9.8.7:10911")


def test_the_schedule_topic_gets_the_deliver_time_that_the_broker_wrote() -> None:
    record = decode_record(SCHEDULE_5_3_3)
    # The broker's own queue unit of this record is 000000000000502b 000000ed 000001a1fd88e1ce.
    assert record.tags_code(DEFAULT_DELAY_LEVELS) == 0x1A1FD88E1CE
    assert record.tags_code(()) == 0
    assert (record.keys, record.unique_key) == (None, "1450E1F47DFFB50664D290C62FE454BF")


def test_a_tag_of_two_chinese_characters_gets_the_hash_that_the_broker_wrote() -> None:
    record = decode_record(LZ4_5_5_1)
    assert record.tags == "标签"
    # The broker's own queue unit of this record is 0000000000025b43 000000c7 00000000000d1457.
    assert record.tags_code(DEFAULT_DELAY_LEVELS) == 0xD1457
    assert compression_type(record.sys_flag) is CompressionType.LZ4
    assert record.body.startswith(bytes.fromhex("04224d18"))


def test_an_inner_batch() -> None:
    record = decode_record(INNER_BATCH_5_1_4)
    assert record.is_inner_batch
    assert (record.properties["INNER_BASE"], record.properties["INNER_NUM"]) == ("20", "1")
    assert not decode_record(PLAIN_5_4_0).is_inner_batch
    assert record.transaction_type is TransactionType.NONE


def test_property_crc() -> None:
    record = decode_record(PROPERTY_CRC_5_5_1)
    assert property_crc_matches(PROPERTY_CRC_5_5_1, record.properties) is True
    changed = bytearray(PROPERTY_CRC_5_5_1)
    changed[16] ^= 1
    assert property_crc_matches(changed, record.properties) is False
    assert property_crc_matches(PLAIN_5_4_0, decode_record(PLAIN_5_4_0).properties) is None


def test_a_changed_body_does_not_match_its_crc() -> None:
    changed = bytearray(PLAIN_5_4_0)
    changed[88] ^= 1
    assert not decode_record(changed).body_crc_matches


def test_brokers_do_not_check_the_crc_of_an_empty_body() -> None:
    changed = bytearray(BORN_IPV6_4_9_8)
    changed[8:12] = b"\0\0\0\7"
    assert decode_record(changed).body_crc_matches


@pytest.mark.parametrize(
    ("topic", "properties", "expected"),
    [
        ("TopicA", {}, 0),
        ("TopicA", {"TAGS": "TagA"}, 2598919),
        ("TopicA", {"TAGS": "polygenelubricants"}, -(2**31)),
        ("TopicA", {"TAGS": "TagA", "DELAY": "abc"}, 2598919),
        ("SCHEDULE_TOPIC_XXXX", {"TAGS": "TagA"}, 2598919),
        ("SCHEDULE_TOPIC_XXXX", {"TAGS": "TagA", "DELAY": "0"}, 2598919),
        ("SCHEDULE_TOPIC_XXXX", {"TAGS": "TagA", "DELAY": "-3"}, 2598919),
        ("SCHEDULE_TOPIC_XXXX", {"DELAY": "1"}, 2_000),
        ("SCHEDULE_TOPIC_XXXX", {"DELAY": "18"}, 7_201_000),
        ("SCHEDULE_TOPIC_XXXX", {"DELAY": "99"}, 7_201_000),
        ("SCHEDULE_TOPIC_XXXX", {"DELAY": "abc"}, None),
        ("SCHEDULE_TOPIC_XXXX", {"DELAY": " 1"}, None),
        ("SCHEDULE_TOPIC_XXXX", {"DELAY": "2147483648"}, None),
    ],
)
def test_tags_code(topic: str, properties: dict[str, str], expected: int | None) -> None:
    assert tags_code(topic, properties, 1_000, DEFAULT_DELAY_LEVELS) == expected


def test_smallest_records() -> None:
    assert MIN_RECORD_SIZE_V1 == 91
    assert smallest_record(MESSAGE_MAGIC_V2, 0) == 92
    assert smallest_record(MESSAGE_MAGIC_V1, 0x10) == 103
    assert smallest_record(MESSAGE_MAGIC_V2, 0x30) == 116


def built(body: bytes = b"body", topic: bytes = b"TopicA", magic: int = MESSAGE_MAGIC_V1, sys_flag: int = 0) -> bytes:
    values = {member.name: 0 for member in message.record_head().subcons}
    hosts = {name: "[fe80::1]:10911" if sys_flag & bit else "10.9.8.7:10911" for name, bit in (("born_host", 0x10), ("store_host", 0x20))}
    block = build_properties({"TAGS": "TagA"})
    return MESSAGE.build({**values, **hosts, "magic_code": magic, "sys_flag": sys_flag, "body": body, "topic": topic, "properties": block})


def patched(raw: bytes, position: int, value: int, width: int = 4) -> bytes:
    data = bytearray(raw)
    data[position : position + width] = (value % 256**width).to_bytes(width, "big")
    return bytes(data)


RECORD = built()
TOPIC_LENGTH = 88 + 4
PROPERTIES_LENGTH = TOPIC_LENGTH + 1 + 6
BLANK_16 = BLANK.build({"total_size": 16, "magic_code": BLANK_MAGIC})

STOPS: list[tuple[StopReason, bytes]] = [
    (StopReason.TRUNCATED, b""),
    (StopReason.TRUNCATED, RECORD[:7]),
    (StopReason.BLANK, BLANK_16),
    (StopReason.BLANK, patched(BLANK_16, 0, -5)),
    (StopReason.END_OF_DATA, bytes(8)),
    (StopReason.END_OF_DATA, bytes(200)),
    (StopReason.ILLEGAL_MAGIC, patched(RECORD, 4, 0)),
    (StopReason.ILLEGAL_MAGIC, patched(bytes(16), 0, 16)),
    (StopReason.ILLEGAL_MAGIC, patched(RECORD, 4, MESSAGE_MAGIC_V1 ^ 1)),
    (StopReason.SIZE_TOO_SMALL, patched(RECORD, 0, 0)),
    (StopReason.SIZE_TOO_SMALL, patched(RECORD, 0, -1)),
    (StopReason.SIZE_TOO_SMALL, patched(RECORD, 0, 90)),
    (StopReason.SIZE_TOO_SMALL, patched(patched(RECORD, 0, 91), 4, MESSAGE_MAGIC_V2)),
    (StopReason.SIZE_TOO_SMALL, patched(patched(RECORD, 0, 102), 36, 0x10)),
    (StopReason.SIZE_TOO_SMALL, patched(patched(RECORD, 0, 90), 36, 0x10)[:39]),
    (StopReason.SIZE_BEYOND_FILE, patched(patched(RECORD, 0, 91), 36, 0x10)[:39]),
    (StopReason.SIZE_BEYOND_FILE, RECORD[:-1]),
    (StopReason.SIZE_BEYOND_FILE, patched(RECORD, 0, 2**31 - 1)),
    (StopReason.BODY_LENGTH, patched(RECORD, 84, -1)),
    (StopReason.BODY_LENGTH, patched(RECORD, 84, len(RECORD) - 91 + 1)),
    (StopReason.BODY_LENGTH, patched(RECORD, 84, 2**31 - 1)),
    (StopReason.TOPIC_LENGTH, patched(RECORD, TOPIC_LENGTH, -1, 1)),
    (StopReason.TOPIC_LENGTH, patched(RECORD, TOPIC_LENGTH, len(RECORD) - 91 - 4 + 1, 1)),
    (StopReason.TOPIC_LENGTH, patched(built(magic=MESSAGE_MAGIC_V2), TOPIC_LENGTH, -1, 2)),
    (StopReason.PROPERTIES_LENGTH, patched(RECORD, PROPERTIES_LENGTH, -1, 2)),
    (StopReason.PROPERTIES_LENGTH, patched(RECORD, PROPERTIES_LENGTH, 11, 2)),
    (StopReason.SIZE_MISMATCH, patched(RECORD, PROPERTIES_LENGTH, 9, 2)),
    (StopReason.SIZE_MISMATCH, patched(RECORD + bytes(8), 0, len(RECORD) + 1)),
]


@pytest.mark.parametrize(("reason", "data"), STOPS)
def test_decoding_stops_with_the_exact_reason(reason: StopReason, data: bytes) -> None:
    with pytest.raises(RecordError) as stopped:
        decode_record(data)
    assert stopped.value.reason is reason
    assert stopped.value.detail


def test_every_reason_is_covered() -> None:
    assert {reason for reason, _ in STOPS} == set(StopReason)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_record_is_found_at_its_position_in_any_buffer(kind: Callable[[bytes], bytes]) -> None:
    buffer = kind(b"x" * 13 + RECORD + PLAIN_5_4_0)
    assert decode_record(buffer, 13).topic == "TopicA"
    assert decode_record(buffer, 13 + len(RECORD)) == decode_record(PLAIN_5_4_0)


def test_empty_body_and_topic_are_a_record() -> None:
    record = decode_record(built(body=b"", topic=b""))
    assert (record.body, record.topic, record.size) == (b"", "", 91 + 10)


def test_a_topic_that_is_not_utf8_is_read_as_java_reads_it() -> None:
    assert decode_record(built(topic=b"a\xffb\xed\xa0\x80")).topic == "a\ufffdb\ufffd"


@settings(deadline=None)
@given(
    raw=st.sampled_from([RECORD, built(magic=MESSAGE_MAGIC_V2), built(sys_flag=0x30), *WRITTEN.values()]),
    changes=st.lists(st.tuples(st.integers(0, 330), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 330),
)
@example(raw=RECORD, changes=[], cut=330)
def test_a_damaged_record_is_refused_or_has_consistent_lengths(raw: bytes, changes: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(raw)
    for position, value in changes:
        data[position % len(data)] = value
    data = data[:cut]
    try:
        record = decode_record(data)
    except RecordError:
        with pytest.raises(ConstructError):
            MESSAGE.parse(bytes(data))
        return
    assert MESSAGE.build(MESSAGE.parse(bytes(data[: record.size]))) == data[: record.size]
    assert record.body_length == len(record.body)


@settings(deadline=None)
@given(data=st.binary(max_size=400))
def test_random_bytes_behind_a_magic_never_read_out_of_bounds(data: bytes) -> None:
    head = len(data).to_bytes(4, "big") + MESSAGE_MAGIC_V1.to_bytes(4, "big") + data[8:]
    try:
        assert decode_record(head).size == len(head)
    except RecordError as stopped:
        assert stopped.reason in set(StopReason) - {StopReason.BLANK, StopReason.END_OF_DATA, StopReason.ILLEGAL_MAGIC}
