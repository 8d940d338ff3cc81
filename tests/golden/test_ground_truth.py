"""`rmqstore dump` gives back every message of every sample store as it was written."""

from __future__ import annotations

import base64
import zlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rmqstore.formats.naming import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from tests.support.cli import rmqstore
from tests.support.stores import PUT_FIELDS, Case, case, cases, sample_store

PUTS = [one.name for one in cases() if not one.is_broker]
BROKERS = [one.name for one in cases() if one.is_broker]

# topics that hold a message for another topic until it is due
WAITING_ROOMS = {SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC}


def dump(root: Path, *options: str) -> list[dict[str, Any]]:
    run = rmqstore("dump", root, "--format", "json", *options)
    assert run.status == 0, run.err
    return run.objects


def messages(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in objects if one["type"] == "message"]


@pytest.mark.parametrize("name", PUTS)
def test_every_put_is_dumped_as_it_was_written(name: str) -> None:
    sample, root = case(name), sample_store(name)
    truth = [line for line in sample.truth() if line["physicalOffset"] >= sample.min_phy_offset]

    found = messages(dump(root, "--part", "commitlog", "--body", "none", *sample.set_options(root)))

    assert [{ours: line[theirs] for theirs, ours in PUT_FIELDS.items()} for line in truth] == [
        {ours: one[ours] for ours in PUT_FIELDS.values()} for one in found
    ]
    assert all(line["bodyCrc"] == line["storedCrc"] for line in truth)


@pytest.mark.parametrize("name", ["4.9.8-transactions", "5.3.3-plain", "5.3.3-plain-crash"])
def test_the_settings_are_not_needed(name: str) -> None:
    root = sample_store(name)

    assert dump(root, "--part", "commitlog") == dump(root, "--part", "commitlog", *case(name).set_options(root))


@pytest.mark.parametrize("name", ["4.9.8-compressed", "5.3.3-plain", "5.5.1-compressed"])
def test_stored_bodies_have_the_length_and_checksum_that_were_written(name: str) -> None:
    sample, root = case(name), sample_store(name)

    found = messages(dump(root, "--part", "commitlog", "--body", "hex", *sample.set_options(root)))

    bodies = [bytes.fromhex(one["body"]) for one in found]
    assert [(len(body), crc(body)) for body in bodies] == [(line["bodyLength"], line["bodyCrc"]) for line in sample.truth()]


@pytest.mark.parametrize("name", BROKERS)
def test_every_acknowledged_send_is_in_the_log(name: str) -> None:
    sample, root = case(name), sample_store(name)
    stored = records_of(sample, root)
    by_offset = {one["physical_offset"]: one for one in stored}
    unique_keys = {one["unique_key"] for one in stored}
    acknowledged = [line for line in sample.truth() if line["status"] == "SEND_OK" and line["kind"] != "recall"]
    messages_of_record = Counter(line["offsetMsgId"] for line in acknowledged)

    assert acknowledged
    for line in acknowledged:
        if line["offsetMsgId"] is None:  # transactions are acknowledged without an offset
            assert line["msgId"] in unique_keys
            continue
        one = by_offset[int(line["offsetMsgId"][-16:], 16)]
        if "INNER_NUM" in one["properties"]:
            check_inner_batch(line, one, messages_of_record[line["offsetMsgId"]])
        else:
            check_send(line, one)


@pytest.mark.parametrize("name", BROKERS)
def test_the_log_of_a_broker_ends_where_it_ended(name: str) -> None:
    sample, root = case(name), sample_store(name)
    if not sample.max_phy_offset:
        pytest.skip("a DLedger store has no commit log of its own")
    found = messages(dump(root, "--part", "commitlog", *sample.set_options(root)))

    assert len(found) == sample.data["records"]
    assert found[-1]["physical_offset"] + found[-1]["size"] == sample.max_phy_offset


def records_of(sample: Case, root: Path) -> list[dict[str, Any]]:
    """The messages of a broker's log with their bodies, unpacked, as base64; in a DLedger store those inside the entries."""
    if sample.data["settings"].get("enableDLegerCommitLog"):
        entries = dump(root, "--part", "dledger", "--body", "base64", "--decompress")
        return [one["message"] for one in entries if one["type"] == "dledger_entry" and one["message"]]
    return messages(dump(root, "--part", "commitlog", "--body", "base64", "--decompress", *sample.set_options(root)))


def check_send(line: Mapping[str, Any], one: Mapping[str, Any]) -> None:
    if one["topic"] in WAITING_ROOMS:  # the client is told the queue it chose and the offset in the queue where the message waits
        assert (one["properties"]["REAL_TOPIC"], int(one["properties"]["REAL_QID"])) == (line["topic"], line["queueId"])
    else:
        assert (one["topic"], one["queue_id"]) == (line["topic"], line["queueId"])
    assert one["queue_offset"] == line["queueOffset"]
    assert one["offset_message_id"] == line["offsetMsgId"]
    assert one["keys"] == line.get("keys")
    assert one["tags"] == line.get("tags")
    if "batch" not in line:  # all records of a batch of 5.x clients carry the unique key of the batch
        assert one["unique_key"] == line["msgId"]
    body = base64.b64decode(one["body"])
    assert (len(body), crc(body)) == (line["bodyLen"], line["bodyCrc"])


def check_inner_batch(line: Mapping[str, Any], one: Mapping[str, Any], count: int) -> None:
    """One record holds several messages of a BatchCQ topic."""
    first = one["queue_offset"]
    assert int(one["properties"].get("INNER_BASE", first)) == first  # brokers with DLedger leave it out
    assert one["topic"] == line["topic"]
    assert int(one["properties"]["INNER_NUM"]) == count
    assert first <= line["queueOffset"] < first + count


def crc(body: bytes) -> int:
    return zlib.crc32(body) & 0x7FFF_FFFF
