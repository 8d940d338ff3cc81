"""The public interface on every sample store: what it reads is what was written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rmqstore
from rmqstore.api.log import Damage, DamageWarning
from rmqstore.api.store import Store
from rmqstore.errors import NotAStoreError, UnreadableError, UsageError
from tests.support.stores import PUT_FIELDS, case, cases, fresh_store, sample_store

STORES = [one.name for one in cases()]
WRITTEN = [one.name for one in cases() if not one.is_broker]
QUEUES = [one.name for one in cases() if not one.is_broker]


def opened(name: str) -> Store:
    root = sample_store(name)
    return rmqstore.open(root, settings=case(name).settings(root))


@pytest.mark.parametrize("name", WRITTEN)
def test_records_are_those_that_were_written(name: str) -> None:
    store = opened(name)
    truth = {line["physicalOffset"]: line for line in case(name).truth() if line["physicalOffset"] >= store.log.min_offset}
    records = list(store.log.records())
    assert {record.physical_offset for record in records} == set(truth)
    for record in records:
        line = truth[record.physical_offset]
        for theirs, ours in PUT_FIELDS.items():
            assert getattr(record, ours) == line[theirs], (record.physical_offset, ours)
    if records:
        assert store.log.record_at(records[-1].physical_offset) == records[-1]


@pytest.mark.parametrize("name", STORES)
def test_batches_have_the_same_records(name: str) -> None:
    log = opened(name).log
    numbers = [(row["physical_offset"], row["body"]) for batch in log.batches(["physical_offset", "body"]) for row in batch.to_pylist()]
    assert numbers == [(record.physical_offset, record.body) for record in log.records(on_damage=lambda damage: None)]


@pytest.mark.parametrize("name", QUEUES)
def test_every_entry_leads_to_its_message(name: str) -> None:
    store = opened(name)
    lines = {line["physicalOffset"]: line for line in case(name).truth()}
    for queue in store.queues():
        entries = list(queue.entries())
        numbers = [number for entry in entries for number in range(entry.queue_offset, entry.queue_offset + entry.messages)]
        assert numbers == list(range(queue.min_offset, queue.max_offset))
        assert len(queue) == len(numbers)
        for entry in entries:
            assert entry.size == lines[entry.physical_offset]["size"]
        if entries and entries[-1].physical_offset >= store.log.min_offset:
            number = queue.max_offset - 1
            assert queue.entry_at(number) == entries[-1]
            assert queue.record_at(number).physical_offset == entries[-1].physical_offset


@pytest.mark.parametrize("name", ["4.9.8-plain", "5.3.3-plain", "5.5.1-batch", "5.1.4-longtopic", "5.4.0-manyfiles"])
def test_every_key_leads_to_its_messages(name: str) -> None:
    store = opened(name)
    wanted: dict[tuple[str, str], list[int]] = {}
    for record in store.log.records():
        for key in filter(None, {record.unique_key, *(record.keys or "").split(" ")}):
            wanted.setdefault((record.topic, key), []).append(record.physical_offset)
    found = {(topic, key): [one.physical_offset for one in store.index.lookup(topic, key)] for topic, key in wanted}
    complete = [place for place in wanted if sorted(found[place]) == wanted[place]]
    assert len(complete) == len(wanted)
    assert all(offsets == sorted(offsets, reverse=True) for offsets in found.values())
    assert list(store.index.lookup("Orders", "no such key")) == []


def test_a_range_and_a_topic() -> None:
    log = opened("5.3.3-plain").log
    every = list(log.records())
    begin, end = every[100].physical_offset, every[200].physical_offset
    assert list(log.records(begin, end)) == every[100:200]
    assert list(log.records(topic="Orders")) == [record for record in every if record.topic == "Orders"]
    rows = sum(batch.num_rows for batch in log.batches(["topic"], topics=["Orders"], begin=begin, end=end))
    assert rows == sum(record.topic == "Orders" for record in every[100:200])


def test_damage_is_reported(tmp_path: Path) -> None:
    root = fresh_store("5.3.3-plain", tmp_path)
    store = rmqstore.open(root)
    lost = list(store.log.records())[7]
    file = root / "commitlog" / "00000000000000000000"
    with file.open("r+b") as stream:
        stream.seek(lost.physical_offset + 4)
        stream.write(b"none")

    damages: list[Damage] = []
    offsets = [record.physical_offset for record in store.log.records(on_damage=damages.append)]
    assert [(one.offset, one.length, one.reason) for one in damages] == [(lost.physical_offset, lost.size, "illegal_magic")]
    assert len(offsets) == len(case("5.3.3-plain").truth()) - 1
    with pytest.warns(DamageWarning, match=f"{lost.size} bytes at offset {lost.physical_offset} hold no record"):
        list(store.log.records())
    with pytest.raises(UnreadableError, match="No record begins"):
        store.log.record_at(lost.physical_offset)


def test_what_is_not_there(tmp_path: Path) -> None:
    store = opened("5.3.3-plain")
    with pytest.raises(UsageError, match="no consume queue Orders/99"):
        store.queue("Orders", 99)
    queue = store.queue("Orders", 0)
    with pytest.raises(UnreadableError, match="no entry for queue offset"):
        queue.entry_at(queue.max_offset)
    for offset in (-1, 1, store.log.max_offset, 1 << 62):
        with pytest.raises(UnreadableError):
            store.log.record_at(offset)
    with pytest.raises(UsageError, match="no column"):
        list(store.log.batches(["nothing"]))
    with pytest.raises(NotAStoreError):
        rmqstore.open(tmp_path)


def test_queues_in_a_database_that_does_not_open(tmp_path: Path) -> None:
    root = fresh_store("5.3.3-rocksdb", tmp_path)
    for manifest in (root / "consumequeue").glob("MANIFEST-*"):
        manifest.unlink()
    with pytest.raises(UnreadableError, match="RocksDB"):
        rmqstore.open(root).queues()


def test_the_import_is_light() -> None:
    """`import rmqstore` loads the package alone: nothing of it that is slow to load."""
    code = "import sys; import rmqstore; print([name for name in sys.modules if name.partition('.')[0] in ('numpy', 'numba', 'click')], \
        [name for name in sys.modules if name.startswith('rmqstore.')])"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] []\n"
