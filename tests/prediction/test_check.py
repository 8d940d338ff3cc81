"""The broker's record check: one record, one field changed, and what each release says to it (fact sheet commit log §3.2)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given

from rmqstore.formats import record
from rmqstore.formats.crc import body_crc
from rmqstore.formats.message import BLANK, record_head
from rmqstore.formats.naming import SCHEDULE_TOPIC
from rmqstore.formats.properties import build_properties
from rmqstore.prediction.blockers import BrokerKilled
from rmqstore.prediction.log.record_check import Checked, RecordCheck
from rmqstore.prediction.options import Options
from rmqstore.store.brokerconf import BrokerConfig
from rmqstore.versions import profile_of
from tests.support.strategies import record_fields

OLD, MIDDLE, NEW = ["4.9.8"], ["5.1.4", "5.2.0"], ["5.3.3", "5.3.4", "5.5.0"]
ALL = OLD + MIDDLE + NEW
FILE_LENGTH = 4096
BODY = b"the body of a message"
TOPIC = b"TopicA"
HEAD = record_head().sizeof()
BODY_LENGTH, TOPIC_LENGTH = HEAD - 4, HEAD + len(BODY)
PROPERTIES_LENGTH = TOPIC_LENGTH + 1 + len(TOPIC)

Edit = Callable[[bytearray], None]


def whole_record(body: bytes = BODY, topic: bytes = TOPIC, properties: dict[str, str] | None = None, **fields: int) -> bytearray:
    hosts = {"born_host": "10.0.0.1:1", "store_host": "10.0.0.2:10911"}
    numbers = dict.fromkeys(("queue_id", "flag", "queue_offset", "physical_offset", "sys_flag", "reconsume_times"), 0)
    times = dict.fromkeys(("born_timestamp", "store_timestamp"), 1_700_000_000_000) | {"prepared_transaction_offset": 0}
    made = {"magic_code": record.MESSAGE_MAGIC_V1, "body": body, "topic": topic, "body_crc": body_crc(body)}
    block = build_properties(properties if properties is not None else {"TAGS": "a"})
    return bytearray(record.MESSAGE.build({**numbers, **times, **hosts, **made, "properties": block, **fields}))


def check(release: str, data: bytes, **settings: str) -> Checked:
    """What recovery of that release says to `data` at the start of a file that is zero behind it."""
    options = Options.of(BrokerConfig.load(None, settings))
    window = np.frombuffer(bytes(data).ljust(FILE_LENGTH, b"\0"), np.uint8)
    return RecordCheck.of_recovery(profile_of(release), options).at(window, 0)


def number(position: int, value: int, width: int = 4) -> Edit:
    """Overwrites an integer."""

    def edit(data: bytearray) -> None:
        data[position : position + width] = value.to_bytes(width, "big", signed=True)

    return edit


ACCEPTED: dict[str, tuple[bytearray, Edit, list[str]]] = {
    "nothing is changed": (whole_record(), lambda data: None, ALL),
    "PHYSICALOFFSET is wrong": (whole_record(), number(28, 12345, 8), ALL),
    "STORETIMESTAMP is 0": (whole_record(), number(56, 0, 8), ALL),
    "the topic is empty": (whole_record(topic=b""), lambda data: None, ALL),
    "the topic is no UTF-8": (whole_record(topic=b"\xff/x"), lambda data: None, ALL),
    "BODYLEN is negative, TOTALSIZE that of no body": (whole_record(body=b""), number(BODY_LENGTH, -1), ALL),
    "PROPLEN is negative, TOTALSIZE that of no properties": (
        whole_record(properties={}),
        number(PROPERTIES_LENGTH, -1, 2),
        ALL,
    ),
    "an empty body has a wrong CRC": (whole_record(body=b""), number(8, 77), ALL),
    "V2": (whole_record(magic_code=record.MESSAGE_MAGIC_V2), lambda data: None, MIDDLE + NEW),
    "INNER_NUM is no number": (whole_record(properties={"INNER_NUM": "x", "INNER_BASE": "1"}), lambda data: None, OLD),
}
STOPPED: dict[str, tuple[bytearray, Edit, list[str]]] = {
    "zeros": (bytearray(100), lambda data: None, ALL),
    "MAGICCODE is wrong": (whole_record(), number(4, 1), ALL),
    "V2": (whole_record(magic_code=record.MESSAGE_MAGIC_V2), lambda data: None, OLD),
    "TOTALSIZE is 0": (whole_record(), number(0, 0), ALL),
    "TOTALSIZE is negative": (whole_record(), number(0, -200), ALL),
    "BODYLEN does not fit": (whole_record(), number(BODY_LENGTH, 2**31 - 1), ALL),
    "BODYLEN is one more": (whole_record(), number(BODY_LENGTH, len(BODY) + 1), ALL),
    "TOPICLEN is negative": (whole_record(), number(TOPIC_LENGTH, -1, 1), ALL),
    "the body is not that of its CRC": (whole_record(), number(8, 77), ALL),
    "the IPv6 bit is set": (whole_record(), number(36, 0x10), ALL),
    "DELAY of a schedule message is no number": (
        whole_record(topic=SCHEDULE_TOPIC.encode(), properties={"DELAY": "abc"}),
        lambda data: None,
        ALL,
    ),
    "INNER_NUM is no number": (whole_record(properties={"INNER_NUM": "x", "INNER_BASE": "1"}), lambda data: None, MIDDLE + NEW),
}


def rows(table: dict[str, tuple[bytearray, Edit, list[str]]]) -> list[tuple[str, str]]:
    return [(name, release) for name, (_, _, releases) in table.items() for release in releases]


def edited(table: dict[str, tuple[bytearray, Edit, list[str]]], name: str) -> bytes:
    data, edit, _ = table[name]
    changed = bytearray(data)
    edit(changed)
    return bytes(changed)


@pytest.mark.parametrize(("name", "release"), rows(ACCEPTED))
def test_accepted(name: str, release: str) -> None:
    data = edited(ACCEPTED, name)
    found = check(release, data)
    assert found.success
    assert found.size == len(data)


@pytest.mark.parametrize(("name", "release"), rows(STOPPED))
def test_stopped(name: str, release: str) -> None:
    assert not check(release, edited(STOPPED, name)).success


@pytest.mark.parametrize("release", ALL)
@pytest.mark.parametrize("more", [-1, 1, 40])
def test_a_size_that_is_not_that_of_the_fields_fails_with_that_size(release: str, more: int) -> None:
    data = whole_record()
    size = len(data) + more
    number(0, size)(data)
    assert (check(release, data).success, check(release, data).size) == (False, size)


@pytest.mark.parametrize(("release", "ends_file"), [*((release, True) for release in OLD + MIDDLE), *((release, False) for release in NEW)])
def test_a_blank_that_claims_more_than_the_file_has(release: str, ends_file: bool) -> None:
    blank = BLANK.build({"total_size": FILE_LENGTH + 1, "magic_code": record.BLANK_MAGIC})
    assert check(release, blank).success is ends_file


@pytest.mark.parametrize("release", ALL)
@pytest.mark.parametrize("size", [8, FILE_LENGTH, 0, -16])
def test_any_other_blank_ends_the_file(release: str, size: int) -> None:
    found = check(release, BLANK.build({"total_size": size, "magic_code": record.BLANK_MAGIC}))
    assert (found.success, found.size) == (True, 0)


@pytest.mark.parametrize("release", OLD + MIDDLE)
def test_a_size_that_no_heap_holds_kills_old_brokers(release: str) -> None:
    data = whole_record()
    number(0, 0x7FFF_FFF0)(data)
    with pytest.raises(BrokerKilled):
        check(release, data)


def test_without_crc_checks_a_wrong_body_passes() -> None:
    data = edited(STOPPED, "the body is not that of its CRC")
    assert check("5.3.3", data, checkCRCOnRecover="false").success


def test_a_record_without_property_crc_fails_where_it_is_demanded() -> None:
    assert not check("5.3.3", whole_record(), forceVerifyPropCRC="true").success
    assert check("5.1.4", whole_record(), forceVerifyPropCRC="true").success


def test_dup_info_is_demanded_with_duplication() -> None:
    assert not check("5.3.3", whole_record(), duplicationEnable="true").success
    assert check("5.3.3", whole_record(properties={"DUP_INFO": "a_b"}), duplicationEnable="true").success
    assert check("4.9.8", whole_record(), duplicationEnable="true").success


def test_schedule_units_of_recovery_carry_the_hash_up_to_4_9_8() -> None:
    data = whole_record(topic=SCHEDULE_TOPIC.encode(), properties={"DELAY": "1", "TAGS": "a"})
    hashed, due = check("4.9.8", data).request, check("5.3.3", data).request
    assert hashed is not None and due is not None
    assert (hashed.tags_code, due.tags_code) == (ord("a"), 1_700_000_000_000 + 1000)


@given(record_fields())
def test_what_the_declaration_builds_is_accepted_with_its_fields(fields: dict[str, object]) -> None:
    data = record.MESSAGE.build(fields)
    found = check("5.5.1", data, checkCRCOnRecover="false").request
    assert found is not None
    decoded = record.decode_record(data)
    assert (found.topic, found.queue_id, found.physical_offset, found.queue_offset, found.size, found.properties) == (
        decoded.topic,
        decoded.queue_id,
        decoded.physical_offset,
        decoded.queue_offset,
        decoded.size,
        decoded.properties,
    )
