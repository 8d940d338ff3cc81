"""Names of queues that compiled code enters are those that Python enters, in tables that grow."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from rmqstore.formats.index import message_keys
from rmqstore.formats.javahash import decode_java_utf8, index_key_hash, java_hash
from rmqstore.formats.naming import SCHEDULE_TOPIC
from rmqstore.formats.record import decode_record
from rmqstore.scan.columns import Check
from rmqstore.scan.kernels.registry import ENTRY_DTYPE, QUEUES, TEXT_END, TOPICS, USED
from rmqstore.scan.names import QueueRegistry, _marks
from rmqstore.scan.walk import LogScanner
from rmqstore.store.mapped import MappedFile
from tests.support.builder import StoreBuilder

SAMPLES = [
    "T",
    "a" * 31,
    "a" * 32,
    "a" * 33,
    "b" + "a" * 32,
    "a" * 120,
    SCHEDULE_TOPIC,
    SCHEDULE_TOPIC[:-1] + "Y",
    "%RETRY%g",
    "no topic!",
    "täglich",
]


def entries(registry: QueueRegistry) -> dict[tuple[bytes, int], tuple[int, ...]]:
    """What the table holds of each queue: numbers, hash and marks."""
    table = registry._table
    found = {}
    for entry in table[table["queue"] >= 0]:
        length, queue_id = int(entry["length_and_queue"]) & 0xFFFFFFFF, int(entry["length_and_queue"]) >> 32
        if not length >> 31:
            topic = registry.topics[int(entry["topic"])]
            assert registry.queues[int(entry["queue"])] == (int(entry["topic"]), queue_id)
            found[topic, queue_id] = tuple(int(entry[name]) for name in ("topic", "queue", "hash", "marks"))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_queues_of_a_log_with_many(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    topics = SAMPLES + ["".join(chance.choices("abc%|_-+$XYZ019", k=chance.randrange(1, 100))) for _ in range(700)]
    builder = StoreBuilder(tmp_path, log_file_size=1 << 21)
    for number in range(4_000):
        builder.message(topic=chance.choice(topics), queue_id=chance.choice([0, 1, 2, 7, 1 << 30]), keys=f"k{number}", body=b"")
    builder.build()
    log = builder.log[0]
    scanner = LogScanner(checks=Check.KEYS)
    seen: dict[tuple[str, int], int] = {}
    for batch in scanner.batches(MappedFile(tmp_path / "commitlog" / f"{0:020}", 0, len(log), len(log))):
        hashes = np.split(batch.keys["hash"], np.cumsum(np.bincount(batch.keys["record"], minlength=len(batch.records)))[:-1])
        for row, keys in zip(batch.records, hashes, strict=True):
            record = decode_record(bytes(log), int(row["position"]))
            key = (record.topic, record.queue_id)
            assert (scanner.topic(int(row["topic"])), scanner.queue(int(row["queue"]))) == (record.topic, key)
            assert seen.setdefault(key, int(row["queue"])) == int(row["queue"])
            if record.topic.isascii() and " " not in record.topic:
                assert keys.tolist() == [index_key_hash(record.topic, each) for each in message_keys(record.properties, False)]
    assert sorted(seen.values()) == list(range(scanner.queue_count)) and len(seen) > 1_500
    assert all(scanner.number_of(topic, queue_id) == number for (topic, queue_id), number in seen.items())
    for (topic, queue_id), (_, queue, topic_hash, marks) in entries(scanner._names).items():
        text = decode_java_utf8(topic)
        assert seen[text, queue_id] == queue
        assert (topic_hash & 0xFFFFFFFF, marks) == (java_hash(text + "#") & 0xFFFFFFFF, _marks(topic))


def test_a_registry_grows() -> None:
    registry = QueueRegistry(8)
    names = [(f"topic{number % 300}".encode() * (number % 40 + 1), number) for number in range(5_000)]
    numbers = [registry.number(topic, queue_id) for topic, queue_id in names]
    assert numbers == list(range(5_000)) == [registry.number(topic, queue_id) for topic, queue_id in reversed(names)][::-1]
    state = registry.state
    assert state[USED] == state[QUEUES] + state[TOPICS] == len(names) + len({topic for topic, _ in names})
    assert state[USED] * 2 <= registry._table.size and len(registry._texts) > 1 and state[TEXT_END]
    assert {key: queue for key, (_, queue, _, _) in entries(registry).items()} == dict(zip(names, numbers, strict=True))
    assert registry._table.dtype == ENTRY_DTYPE
