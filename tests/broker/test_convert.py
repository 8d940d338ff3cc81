"""A whole broker serves from files what it served from RocksDB before, and the other way round, after `rmqstore convert`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rmqstore.formats.naming import SCHEDULE_TOPIC
from tests.broker.consumed_messages import NotServed
from tests.broker.toolchain import missing
from tests.broker.whole_start import Asked, WholeStart, require_broker, start
from tests.support import stores
from tests.support.cli import rmqstore

REFUSED = 3
BASE = "broker-5.5.1-rocksdb-clean"

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"whole brokers cannot run here: {missing()}"),
]


@pytest.mark.exhaustive
def test_every_message_is_at_its_place(tmp_path: Path) -> None:
    case = stores.case(BASE)
    require_broker(case.release)
    rows = [row for row in rmqstore("queues", stores.sample_store(BASE), "--json").objects if row["type"] == "queue"]
    # A delay level goes on at the start, and what it delivers is new.
    asked = Asked(queues=[f"{row['topic']}/{row['queue_id']}" for row in rows if row["topic"] != SCHEDULE_TOPIC])
    before, after = stores.fresh_store(BASE, tmp_path / "before"), stores.fresh_store(BASE, tmp_path / "after")
    settings = case.settings(after)

    converted = rmqstore("convert", after, "--to", "files", "--yes", *case.set_options(after))

    assert converted.status == 0, converted.err
    assert not (after / "consumequeue" / "CURRENT").exists()
    first = start(case.release, before, settings, asked, tmp_path / "first")
    second = start(case.release, after, {**settings, "storeType": "default"}, asked, tmp_path / "second")
    assert first.refused == second.refused
    end = case.max_phy_offset
    assert sum(len(one) for one in _places(first, end).values()) > len(rows)
    assert _places(second, end) == _places(first, end)


@pytest.mark.exhaustive
def test_every_message_is_at_its_place_in_a_new_database(tmp_path: Path) -> None:
    """From RocksDB into files and back: topics and groups of the JSON files are there as well."""
    case = stores.case(BASE)
    require_broker(case.release)
    rows = [row for row in rmqstore("queues", stores.sample_store(BASE), "--json").objects if row["type"] == "queue"]
    asked = Asked(queues=[f"{row['topic']}/{row['queue_id']}" for row in rows if row["topic"] != SCHEDULE_TOPIC], send=True)
    before, after = stores.fresh_store(BASE, tmp_path / "before"), stores.fresh_store(BASE, tmp_path / "after")
    settings = case.settings(after)
    words = ["--yes", "--broker-version", case.release, *case.set_options(after)]

    assert rmqstore("convert", after, "--to", "files", *words).status == 0
    assert rmqstore("convert", after, "--to", "rocksdb", *words).status == REFUSED
    shutil.rmtree(after / "compaction")  # a broker with queues in RocksDB does not start with it
    converted = rmqstore("convert", after, "--to", "rocksdb", *words)
    assert converted.status == 0, converted.err

    first = start(case.release, before, settings, asked, tmp_path / "first")
    second = start(case.release, after, settings, asked, tmp_path / "second")
    assert first.refused == second.refused and second.new
    end = case.max_phy_offset
    assert sum(len(one) for one in _places(first, end).values()) > len(rows)
    assert _places(second, end) == _places(first, end)


@pytest.mark.limited(1)
@pytest.mark.sampled(0)
@pytest.mark.parametrize("base", ["5.3.3-plain", "5.5.1-plain"])
def test_a_store_of_files_is_served_from_a_new_database(base: str, tmp_path: Path) -> None:
    case = stores.case(base)
    require_broker(case.release)
    rows = [row for row in rmqstore("queues", stores.sample_store(base), "--json").objects if row["type"] == "queue"]
    asked = Asked(queues=[f"{row['topic']}/{row['queue_id']}" for row in rows if row["topic"] != SCHEDULE_TOPIC])
    before, after = stores.fresh_store(base, tmp_path / "before"), stores.fresh_store(base, tmp_path / "after")
    settings = case.settings(after)

    converted = rmqstore("convert", after, "--to", "rocksdb", "--yes", "--broker-version", case.release, *case.set_options(after))

    assert converted.status == 0, converted.err
    first = start(case.release, before, settings, asked, tmp_path / "first")
    second = start(case.release, after, {**settings, "storeType": "defaultRocksDB"}, asked, tmp_path / "second")
    assert not second.refused
    end = case.max_phy_offset
    assert sum(len(one) for one in _places(first, end).values()) > len(rows)
    assert _places(second, end) == _places(first, end)


def _places(found: WholeStart, end: int) -> dict[Any, dict[int, int]]:
    """Physical offsets of the messages of each queue by queue offset, up to the end of the log before the start."""
    return {
        queue: {place: line["physicalOffset"] for place, line in of_queue.items() if line["physicalOffset"] < end}
        for queue, of_queue in found.queues.items()
    }


@pytest.mark.limited(1)
@pytest.mark.sampled(0)
@pytest.mark.parametrize("base", ["broker-5.3.3-cqext-crash", "broker-5.5.1-crash"])
def test_a_broker_takes_the_configuration_of_a_new_database(base: str, tmp_path: Path) -> None:
    """Topics, groups and offsets of `config/rdb` are there after a start with configManagerVersion=v2; without it there is no start."""
    case = stores.case(base)
    require_broker(case.release)
    converted, empty = stores.fresh_store(base, tmp_path / "converted"), stores.fresh_store(base, tmp_path / "empty")
    before = _configuration(converted)
    words = ["--yes", "--broker-version", case.release, *case.set_options(converted)]
    done = rmqstore("convert", converted, "--to", "config-v2", *words)
    assert done.status == 0, done.err
    assert _configuration(converted) == before

    settings = {**case.settings(converted), "configManagerVersion": "v2"}
    start(case.release, converted, settings, Asked(), tmp_path / "first")
    after = _configuration(converted)
    assert after["topics"].items() >= before["topics"].items()
    # The broker itself goes on with half messages and popped ones.
    assert before["offsets"] and all(after["offsets"].get(key, -1) >= offset for key, offset in before["offsets"].items())

    with pytest.raises(NotServed, match="should be BatchCQ"):  # of the attributes of topics nothing is known
        start(case.release, empty, settings, Asked(), tmp_path / "second")


def _configuration(root: Path) -> dict[str, dict[Any, Any]]:
    """Numbers of queues and attributes of topics, offsets of groups, as `topics` and `groups` list them."""
    topics, groups = (rmqstore(command, root, "--json").objects for command in ("topics", "groups"))
    fields = ("read_queues", "write_queues", "permissions", "message_type")
    return {
        "topics": {one["topic"]: [one.get(name) for name in fields] for one in topics if one["type"] == "topic" and one["configured"]},
        "offsets": {(one["group"], one["topic"], one["queue_id"]): one["offset"] for one in groups if one.get("queue_id") is not None},
    }
