"""`rmqstore stats` counts what is in every sample store, however the work is divided."""

from __future__ import annotations

import json
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rmqstore.formats.naming import FILLER_TOPIC
from rmqstore.formats.sysflag import SysFlag
from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.local import LocalRunner
from rmqstore.pipeline.stats.counts import Counts
from rmqstore.pipeline.stats.job import StatsJob
from rmqstore.pipeline.stats.result import objects, summary
from rmqstore.reading.progress import silent
from tests.support.builder import FIRST_TIMESTAMP, StoreBuilder
from tests.support.cli import rmqstore
from tests.support.damages import DAMAGES, apply
from tests.support.stores import case, cases, fresh_store, sample_store, snapshot
from tests.support.storeview import StoreView

ALL = [one.name for one in cases()]
PUTS = [one.name for one in cases() if not one.is_broker]
EVERYTHING = 1_000_000
DAMAGED = [
    "body-flip-mid",
    "garbage-300-mid",
    "zero-record-mid",
    "file-missing-middle",
    "torn-tail-half",
    "field-topiclen-mid",
    "totalsize-huge",
]

Value = tuple[str, Any]
Sums = dict[Value, tuple[int, int]]


def stats(at: StoreAt, *, largest: int = 1 << 30, threads: int = 1) -> dict[Any, Any]:
    """Counts as `rmqstore stats` tells them: (messages, bytes) by (dimension, value), and the summary under `summary`."""
    job = StatsJob.over([at], largest=largest)
    counts = Counts.of_results(LocalRunner(threads).run(job, silent))
    found: dict[Any, Any] = told(list(objects(counts, EVERYTHING)))
    return {**found, "summary": summary(counts, 1)}


def told(found: list[dict[str, Any]]) -> dict[Any, Any]:
    assert all(one["values"] == 1 for one in found if one["value"] is not None)
    return {(one["dimension"], one["value"]): (one["messages"], one["bytes"]) for one in found}


def store_at(name: str, root: Path | None = None) -> StoreAt:
    root = root or sample_store(name)
    return StoreAt.of(root, settings=case(name).settings(root))


def dumped(root: Path, name: str) -> list[dict[str, Any]]:
    """All messages of a log, those inside of DLedger entries as well."""
    run = rmqstore("dump", root, "--format", "json", *case(name).set_options(root))
    assert run.status == 0, run.err
    found = (one.get("message") if one["type"] == "dledger_entry" else one for one in run.objects)
    return [one for one in found if one and one["type"] == "message"]


def expected(messages: Iterable[Mapping[str, Any]]) -> Sums:
    """Messages and bytes by every dimension that messages alone decide."""
    messages_of: Counter[Value] = Counter()
    bytes_of: Counter[Value] = Counter()
    for message in messages:
        for value in values_of(message):
            messages_of[value] += 1
            bytes_of[value] += message["size"]
    return {value: (messages_of[value], bytes_of[value]) for value in messages_of}


def values_of(message: Mapping[str, Any]) -> Iterator[Value]:
    stored = datetime.fromtimestamp(message["store_timestamp"] // 1000, UTC)
    yield "topic", message["topic"]
    yield "queue", f"{message['topic']}/{message['queue_id']}"
    yield "tag", message["tags"] or ""
    yield "host", message["born_host"].rpartition(":")[0].strip("[]")
    yield "day", f"{stored:%Y-%m-%d}"
    yield "hour", f"{stored:%Y-%m-%dT%H}"
    yield "size", 2 ** (message["size"].bit_length() - 1)
    kinds = {0: "zlib_of_old_clients", 1: "lz4", 2: "zstd", 3: "zlib"}
    yield "compression", kinds[message["sys_flag"] >> 8 & 7] if message["sys_flag"] & 1 else "none"


def by_message(found: Mapping[Any, Any]) -> Sums:
    """What `expected` can tell of what was found."""
    return {value: sums for value, sums in found.items() if value != "summary" and value[0] != "weight"}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", ALL)
def test_every_message_is_counted_under_all_its_values(name: str) -> None:
    assert by_message(stats(store_at(name))) == expected(dumped(sample_store(name), name))


@pytest.mark.parametrize("name", PUTS)
def test_counts_are_those_of_the_ground_truth(name: str) -> None:
    truth = [line for line in case(name).truth() if line["physicalOffset"] >= case(name).min_phy_offset]
    by_topic, by_tag = Counter(line["topic"] for line in truth), Counter(line["tags"] or "" for line in truth)

    found = stats(store_at(name))

    assert {value: sums[0] for (dimension, value), sums in by_message(found).items() if dimension == "topic"} == by_topic
    assert {value: sums[0] for (dimension, value), sums in by_message(found).items() if dimension == "tag"} == by_tag
    assert found["summary"]["messages"] == len(truth)
    assert found["summary"]["bytes"] == sum(line["size"] for line in truth)
    times = [line["storeTimestamp"] for line in truth]
    assert found["summary"]["first_store_timestamp"] == min(times, default=None)
    assert found["summary"]["last_store_timestamp"] == max(times, default=None)


@pytest.mark.parametrize("name", ALL)
def test_every_byte_of_the_log_has_one_weight(name: str) -> None:
    at = store_at(name)
    found = stats(at)

    weights = {value[1]: sums for value, sums in found.items() if value[0] == "weight"}

    assert sum(size for _, size in weights.values()) == sum(file.length for file in at.open().message_log.files)
    assert sum(messages for messages, _ in weights.values()) == found["summary"]["messages"]
    assert case(name).crashed or "damaged" not in weights


@pytest.mark.parametrize("name", ALL)
def test_small_pieces_and_threads_give_the_same(name: str) -> None:
    whole = stats(store_at(name))
    # Some twenty pieces; opening a store for each of many takes its time.
    largest = max(5000, whole["summary"]["bytes"] // 20)

    assert stats(store_at(name), largest=largest, threads=3) == whole


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_store_is_counted_as_far_as_it_can_be_read(name: str, tmp_path: Path) -> None:
    root = fresh_store("5.3.3-plain", tmp_path)
    apply(DAMAGES[name](StoreView(root, case("5.3.3-plain").settings(root))), root)
    run = rmqstore("dump", root, "--format", "json")
    damages = [one for one in run.objects if one["type"] == "damage" and one["reason"] not in ("missing_file", "unwritten")]

    found = stats(store_at("5.3.3-plain", root))

    assert by_message(found) == expected(dumped(root, "5.3.3-plain"))
    assert found["summary"]["damaged_ranges"] == len(damages)
    assert found["summary"]["damaged_bytes"] == sum(one["length"] for one in damages)
    assert stats(store_at("5.3.3-plain", root), largest=5000, threads=2) == found


# Dead weight


def built(tmp_path: Path) -> StoreBuilder:
    return StoreBuilder(tmp_path / "store", log_file_size=64 * 1024)


def weights_of(root: Path, **settings: str) -> dict[str, int]:
    """Messages by their weight."""
    found = stats(StoreAt.of(root, settings=settings))
    return {value[1]: sums[0] for value, sums in found.items() if value[0] == "weight" and sums[0]}


def test_retries_dead_letters_and_the_brokers_own_messages_are_told_apart(tmp_path: Path) -> None:
    builder = built(tmp_path)
    for topic in ("TopicA", "TopicA", "%RETRY%g", "%DLQ%g", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_wheel_timer"):
        builder.message(topic=topic)

    assert weights_of(builder.build()) == {"live": 2, "retry": 1, "dead_letter": 1, "system": 3}


def without_queues(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "gone")


def without_topic(root: Path) -> None:
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": {"TopicA": {}}}))


@pytest.mark.parametrize("delete", [without_queues, without_topic])
def test_messages_of_deleted_topics_are_dead(delete: Callable[[Path], None], tmp_path: Path) -> None:
    root = built(tmp_path).message(topic="TopicA").message(topic="gone").message(topic="gone").build()
    assert weights_of(root) == {"live": 3}

    delete(root)

    assert weights_of(root) == {"live": 1, "deleted_topic": 2}


def test_messages_in_front_of_their_queue_are_dead(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store", queue_file_size=3 * 20)
    for _ in range(5):
        builder.message(topic="TopicA")
    root = builder.build()
    (root / "consumequeue" / "TopicA" / "0" / ("0" * 20)).unlink()

    assert weights_of(root) == {"before_queue_minimum": 3, "live": 2}


def test_messages_older_than_they_are_kept_are_expired(tmp_path: Path) -> None:
    builder = built(tmp_path)
    for hours in (0, 1, 2, 3):
        builder.message(topic="TopicA", store_timestamp=FIRST_TIMESTAMP + hours * 3_600_000)
    root = builder.build()

    assert weights_of(root) == {"live": 4}
    assert weights_of(root, fileReservedTime="1") == {"expired": 2, "live": 2}


def test_fillers_are_no_messages_that_somebody_sent(tmp_path: Path) -> None:
    builder = built(tmp_path).message(topic="TopicA")
    for topic in (FILLER_TOPIC, FILLER_TOPIC[:3]):
        builder.message(topic=topic, sys_flag=SysFlag.TRANSACTION_ROLLBACK)

    assert weights_of(builder.build()) == {"live": 1, "filler": 2}


# The command


def test_the_command_tells_objects_and_a_summary() -> None:
    root = sample_store("broker-5.5.1-crash")
    before = snapshot(root)

    run = rmqstore("stats", root, "--format", "json", "--top", "3", "--engine", "local")

    assert run.status == 0, run.err
    *found, last = run.objects
    whole = stats(StoreAt.of(root))
    assert last["type"] == "summary"
    assert last["messages"] == whole["summary"]["messages"]
    assert last["engine"] == "local"
    topics = [one for one in found if one["dimension"] == "topic"]
    assert [one["value"] is None for one in topics] == [False, False, False, True]
    assert sorted((one["bytes"] for one in topics[:3]), reverse=True) == [one["bytes"] for one in topics[:3]]
    assert topics[3]["values"] == whole["summary"]["values"]["topic"] - 3
    assert sum(one["bytes"] for one in topics) == last["bytes"]
    assert snapshot(root) == before


def test_several_stores_are_added_up() -> None:
    names = ["5.3.3-plain", "5.5.1-ipv6"]
    roots = [sample_store(name) for name in names]

    run = rmqstore("stats", *roots, "--format", "json", "--top", str(EVERYTHING))

    *found, last = run.objects
    both = told(found)
    assert by_message({key: sums for key, sums in both.items() if key[0] != "store"}) == expected(
        message for name, root in zip(names, roots, strict=True) for message in dumped(root, name)
    )
    single = [stats(StoreAt.of(root))["summary"] for root in roots]
    assert [both["store", str(root)] for root in roots] == [(one["messages"], one["bytes"]) for one in single]
    assert last["stores"] == 2


def test_a_table_has_bars() -> None:
    run = rmqstore("stats", sample_store("5.3.3-plain"))

    assert run.status == 0
    assert "by topic" in run.out
    assert "█" in run.out


def test_csv_has_a_row_for_every_object() -> None:
    lines = rmqstore("stats", sample_store("5.3.3-plain"), "--format", "csv").out.splitlines()
    objects = rmqstore("stats", sample_store("5.3.3-plain"), "--format", "json").objects

    assert lines[0] == "type,dimension,value,values,messages,bytes"
    assert len(lines) == len(objects)  # one is the summary, one the header


def test_the_report_is_one_page_that_needs_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "report.html"

    run = rmqstore("stats", sample_store("5.3.3-plain"), "--html", target, "--quiet")

    text = target.read_text("utf-8")
    assert run.status == 0
    assert "<svg" in text
    assert not any(word in text for word in ("http", "src=", "<script", "@import", "url("))
    assert list(tmp_path.iterdir()) == [target]


def test_a_report_that_cannot_be_written_is_an_error_of_status_4(tmp_path: Path) -> None:
    run = rmqstore("stats", sample_store("5.3.3-plain"), "--html", tmp_path / "missing" / "report.html")

    assert run.status == 4
    assert "could not be written" in run.err
    assert list(tmp_path.iterdir()) == []


def test_an_empty_log_has_no_messages() -> None:
    run = rmqstore("stats", sample_store("5.5.1-empty"), "--format", "json")

    assert run.status == 0
    assert run.objects[-1]["messages"] == 0


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        run = rmqstore("stats", path)
        assert (run.status, run.out, run.crashed) == (4, "", False)


def test_tags_with_one_hash_are_told_apart(tmp_path: Path) -> None:
    # The queue unit has one code for both.
    root = built(tmp_path).message(topic="TopicA", tags="Aa").message(topic="TopicA", tags="BB").build()

    found = stats(StoreAt.of(root))

    assert [found["tag", tag][0] for tag in ("Aa", "BB")] == [1, 1]


def test_a_compressed_body_is_counted_by_its_kind(tmp_path: Path) -> None:
    flags = SysFlag.COMPRESSED | 5 << 8
    root = built(tmp_path).message(topic="TopicA", body=zlib.compress(b"x"), sys_flag=flags).build()

    assert stats(StoreAt.of(root))["compression", "unknown_5"][0] == 1
