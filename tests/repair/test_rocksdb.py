"""Stores whose queues are in RocksDB, which is not written: what stands in the log has to do, and the broker makes a lost database anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rmqstore.formats.record import decode_record
from tests.repair.damaged_queues import described
from tests.repair.recovering import Damaged, damaged
from tests.support import stores

STORES = ["5.2.0-rocksdb", "5.3.3-rocksdb", "5.5.1-rocksdb"]


@pytest.mark.parametrize("base", STORES)
def test_a_database_that_is_gone_is_left_to_a_start_after_a_crash(base: str, tmp_path: Path) -> None:
    store = Damaged(base, stores.fresh_store(base, tmp_path))
    shutil.rmtree(store.root / "consumequeue")

    result = store.recover()

    assert described(result.plan) == [("create", "abort")]
    assert (result.errors, result.left) == ({}, 0)
    assert store.open().rocksdb_queues
    assert store.recover().plan.empty


@pytest.mark.parametrize("base", STORES)
def test_a_database_that_is_there_keeps_its_store_as_it_is(base: str, tmp_path: Path) -> None:
    store = Damaged(base, stores.fresh_store(base, tmp_path))

    result = store.recover()

    assert result.plan.empty
    assert not store.open().abort_present


@pytest.mark.parametrize("base", STORES)
def test_what_stands_in_for_a_lost_message_carries_its_topic_and_queue(base: str, tmp_path: Path) -> None:
    store = damaged(base, "body-flip-mid", tmp_path)

    (lost,) = store.recover().plan.lost

    assert lost.physical_offset is not None and lost.size is not None
    record = decode_record(store.log_bytes(lost.physical_offset, lost.size))
    assert (record.topic, record.queue_id, record.queue_offset) == (lost.topic, lost.queue_id, lost.queue_offset)
    assert record.properties == {"RMQSTORE_PLACEHOLDER": "lost"}
