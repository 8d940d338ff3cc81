"""Message ids: what they say by themselves, compared with the messages of real brokers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from rmqstore.brokerlog.messageid import explained, is_message_id
from tests.support import stores
from tests.support.cli import rmqstore

NOW = datetime(2026, 11, 25, tzinfo=UTC)


def _records(name: str) -> list[dict[str, Any]]:
    run = rmqstore("dump", stores.sample_store(name), "--part", "commitlog", "--format", "json", "--limit", "40")
    return [record for record in run.objects if record["type"] == "message"]


@pytest.mark.parametrize("name", ["5.3.3-plain", "4.9.8-ipv6"])
def test_ids_of_real_messages(name: str) -> None:
    records = _records(name)
    assert records
    for record in records:
        value = explained(record["offset_message_id"], NOW)
        assert (value["kind"], value["physical_offset"], value["host"]) == ("offset id", record["physical_offset"], record["store_host"])
        if record["unique_key"] and is_message_id(record["unique_key"]):
            sent = datetime.fromtimestamp(record["born_timestamp"] / 1000, UTC)
            key = explained(record["unique_key"], sent)
            assert key["kind"] == "unique key"


def test_the_command_explains_an_id_and_names_the_query() -> None:
    store = stores.sample_store("5.3.3-plain")
    record = _records("5.3.3-plain")[3]
    (value,) = rmqstore("explain", record["offset_message_id"], "--store", store, "--format", "json").objects
    assert value["type"] == "message_id"
    run = rmqstore(*value["next"].split()[1:], "--format", "json")
    assert (run.status, run.objects[0]["physical_offset"]) == (0, record["physical_offset"])


def test_time_of_a_unique_key_is_within_the_last_month_that_fits() -> None:
    text = "AC110001" + "1F90" + "18B4AAC2" + f"{(24 * 3600 + 61) * 1000:08X}" + "0007"
    value = explained(text, NOW)
    assert (value["host"], value["process_id"], value["counter"]) == ("172.17.0.1", 0x1F90, 7)
    assert value["time_if_last_month"] == "2026-11-02 00:01:01"
    late = "AC110001" + "1F90" + "18B4AAC2" + f"{27 * 24 * 3600 * 1000:08X}" + "0007"
    assert explained(late, NOW)["time_if_last_month"] == "2026-10-28 00:00:00"


def test_an_id_of_a_grpc_client() -> None:
    value = explained("01" + "0242AC110002" + "0001" + f"{86400:08X}" + "00000005", NOW)
    assert (value["host"], value["time"], value["counter"]) == ("02:42:ac:11:00:02", "2021-01-02 00:00:00Z", 5)


@pytest.mark.parametrize("text", ["", "AC11", "Z" * 32, "02" + "0" * 32])
def test_other_texts_are_no_ids(text: str) -> None:
    assert not is_message_id(text)
