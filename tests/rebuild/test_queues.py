"""Which records get units, in which queues, and what the units hold: transactions, multi dispatch, ext units, batch queues, odd names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmqstore.formats import consumequeue_ext
from rmqstore.formats.javahash import decode_java_utf8, index_key_hash, java_hash
from rmqstore.formats.properties import INNER_BASE, INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET, INNER_NUM
from rmqstore.formats.sysflag import SysFlag
from rmqstore.prediction.queues.units import BATCH_UNIT
from rmqstore.rebuild import Gap, LeftOut, MemorySink, Mode, QueueBuilder, QueueKind, RebuiltQueue, Restart, Settings
from rmqstore.rebuild.queues import is_path_name
from rmqstore.scan.columns import Fault
from rmqstore.scan.kernels.index import ITEM_ROWS
from rmqstore.versions import profile_of
from tests.rebuild.columns import RECORD_LENGTH, SMALL, batch, build, of_offsets, units
from tests.rebuild.rebuilding import Rebuilt, rebuilt
from tests.support.builder import StoreBuilder

PREPARED, ROLLED_BACK, COMMITTED = 4, 12, 8


class LogOnly(StoreBuilder):
    """Writes nothing but the log, whatever the records ask for."""

    def _dispatch(self, fields: Mapping[str, Any], size: int) -> None:
        pass


def spread(names: str, offsets: str) -> dict[str, str]:
    """The properties of a record that fans out."""
    return {INNER_MULTI_DISPATCH: names, INNER_MULTI_QUEUE_OFFSET: offsets}


def made_of(builder: StoreBuilder, release: str = "5.3.3", mode: Mode = Mode.USEFUL, **changed: object) -> Rebuilt:
    root = builder.build()
    return rebuilt(root, builder.settings, release, mode, **changed)  # type: ignore[arg-type]


def places(made: Rebuilt, topic: str, queue_id: int = 0) -> list[int]:
    """Physical offsets in the units of a queue."""
    queue = made.queue(topic, queue_id)
    return [position for position, size, _ in units(queue, made.sink)[: queue.end_offset] if size]


def keys(made: Rebuilt) -> list[tuple[str, int]]:
    return [(queue.topic, queue.queue_id) for queue in made.queues.queues]


@pytest.mark.parametrize("mode", Mode)
def test_prepared_and_rolled_back_records_have_no_units(mode: Mode) -> None:
    rows = of_offsets([0, 0, 1, 0, 2])
    for row, flag in zip(rows, (0, PREPARED, COMMITTED, ROLLED_BACK, 0), strict=True):
        row["sys_flag"] = flag
    result, sink = build([*rows, {"queue": 1, "sys_flag": ROLLED_BACK}], mode)
    (queue, empty) = result.queues
    assert [position for position, _, _ in units(queue, sink)[:3]] == [0, 200, 400]
    assert (empty.files, empty.end_offset, empty.max_physic_offset) == ((), 0, -1)
    assert result.last_physical_offset == 400


@pytest.mark.parametrize(
    ("fault", "mode", "units_left"),
    [
        (Fault.BODY_CRC, Mode.USEFUL, 2),
        (Fault.BODY_CRC, Mode.FAITHFUL, 3),
        (Fault.PHYSICAL_OFFSET, Mode.USEFUL, 2),
        (Fault.DELAY, Mode.USEFUL, 2),
        (Fault.DELAY, Mode.FAITHFUL, 2),
        (Fault.RECONSUME_TIMES, Mode.USEFUL, 3),
    ],
)
def test_records_that_no_unit_may_point_at(fault: Fault, mode: Mode, units_left: int) -> None:
    rows = of_offsets([0, 1, 2])
    rows[2]["faults"] = int(fault)
    result, _ = build(rows, mode)
    assert result.refused == 3 - units_left
    assert result.queues[0].end_offset == units_left


def test_the_crc_of_an_empty_body_is_not_looked_at() -> None:
    result, _ = build([{"faults": int(Fault.BODY_CRC), "body_length": 0}])
    assert (result.refused, result.queues[0].end_offset) == (0, 1)


def test_only_wanted_queues_are_made() -> None:
    rows = [{"queue": queue, "queue_offset": 0} for queue in range(3)]
    result, sink = build(rows, wanted=lambda topic, queue_id: (topic, queue_id) == ("TopicA", 1))
    assert [(queue.topic, queue.queue_id) for queue in result.queues] == [("TopicA", 1)]
    assert list(sink.files) == ["consumequeue/TopicA/1/00000000000000000000"]


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../../etc", "a\0b", "x" * 256])
def test_topics_that_are_no_directory_names(topic: str) -> None:
    assert not is_path_name(topic)
    sink = MemorySink()
    builder = QueueBuilder(lambda number: (topic, 0), SMALL, profile_of("5.3.3"), sink, log_start=0)
    builder.put(batch([{}]))
    result = builder.finish()
    assert (result.queues, result.unwritable, sink.files) == ((), ((topic, 0),), {})


def test_two_names_that_java_reads_as_one() -> None:
    sink = MemorySink()
    builder = QueueBuilder(lambda number: ("T\N{REPLACEMENT CHARACTER}", 0), SMALL, profile_of("5.3.3"), sink, log_start=0)
    builder.put(batch([{"queue": 0, "queue_offset": 0}, {"queue": 1, "queue_offset": 1}]))
    (queue,) = builder.finish().queues
    assert queue.end_offset == 2


def test_many_queues() -> None:
    sink = MemorySink()
    builder = QueueBuilder(lambda number: ("T", number), SMALL, profile_of("5.3.3"), sink, log_start=0)
    for start in (0, 600):
        builder.put(batch([{"queue": start + number, "queue_offset": 0} for number in range(600)]))
    result = builder.finish()
    assert [queue.queue_id for queue in result.queues] == list(range(1200))
    assert all(queue.end_offset == 1 for queue in result.queues)


LIGHT = {"enable_lmq": True, "enable_multi_dispatch": True}


@pytest.mark.parametrize("mode", Mode)
def test_light_queues(tmp_path: Path, mode: Mode) -> None:
    builder = LogOnly(tmp_path / "store")
    builder.message(queue_id=2, properties=spread("%LMQ%a,%LMQ%b", "0,7"))
    builder.message(queue_id=2)
    builder.message(queue_id=2, properties=spread("%LMQ%a", "1"))
    made = made_of(builder, mode=mode, **LIGHT)
    assert keys(made) == [("%LMQ%a", 0), ("%LMQ%b", 0), ("TopicA", 2)]
    first, _, last = places(made, "TopicA", 2)
    assert places(made, "%LMQ%a") == [first, last]
    assert made.queue("%LMQ%b").first_offset == 7


def test_light_queues_are_off_without_both_settings(tmp_path: Path) -> None:
    builder = LogOnly(tmp_path / "store").message(properties=spread("%LMQ%a", "0"))
    assert keys(made_of(builder, enable_lmq=True)) == [("TopicA", 0)]


@pytest.mark.parametrize(
    ("release", "topic", "fans_out"),
    [
        ("4.9.8", "%RETRY%g", True),
        ("5.1.4", "%RETRY%g", False),
        ("5.1.4", "rmq_sys_other", True),
        ("5.3.3", "rmq_sys_other", False),
    ],
)
def test_topics_that_do_not_fan_out(tmp_path: Path, release: str, topic: str, fans_out: bool) -> None:
    builder = LogOnly(tmp_path / "store").message(topic, properties=spread("%LMQ%a", "0"))
    assert (("%LMQ%a", 0) in keys(made_of(builder, release, **LIGHT))) == fans_out


@pytest.mark.parametrize(
    ("names", "offsets", "expected"),
    [
        ("other,%LMQ%a", "0,0", [("%LMQ%a", 0), ("TopicA", 3), ("other", 3)]),
        ("%LMQ%a,%LMQ%b", "0", [("TopicA", 3)]),
        ("%LMQ%a,,%LMQ%b", "0,,0", [("%LMQ%a", 0), ("TopicA", 3)]),
        ("a/b,%LMQ%a", "0,0", [("%LMQ%a", 0), ("TopicA", 3)]),
        ("TopicA", "1", [("TopicA", 3)]),
    ],
)
def test_names_and_numbers_of_further_queues(tmp_path: Path, names: str, offsets: str, expected: list[tuple[str, int]]) -> None:
    """An offset that is no number ends the further queues of a record; names with a path in them are passed over."""
    builder = LogOnly(tmp_path / "store").message(queue_id=3, properties=spread(names, offsets))
    assert keys(made_of(builder, mode=Mode.FAITHFUL, **LIGHT)) == expected


def test_further_units_of_the_queue_itself_keep_the_order(tmp_path: Path) -> None:
    builder = LogOnly(tmp_path / "store").message(queue_id=3, properties=spread("TopicA", "1")).message(queue_id=3, queue_offset=2)
    made = made_of(builder, **LIGHT)
    first, again, second = places(made, "TopicA", 3)
    assert first == again < second


@pytest.mark.parametrize("mode", Mode)
def test_light_queues_have_no_ext_units(tmp_path: Path, mode: Mode) -> None:
    builder = LogOnly(tmp_path / "store")
    for number in range(4):
        builder.message(tags=f"t{number}", properties=spread("%LMQ%a", str(number)))
    made = made_of(builder, mode=mode, **LIGHT, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=64)
    tags = [tags_code for _, _, tags_code in units(made.queue("%LMQ%a"), made.sink)[:4]]
    assert tags == [java_hash(f"t{number}") for number in range(4)]
    assert made.queue("%LMQ%a").ext_files == ()
    addresses = [tags_code for _, _, tags_code in units(made.queue(), made.sink)[:4]]
    assert [consumequeue_ext.decode_address(code) for code in addresses] == [0, 20, 40, 64]


def test_ext_files_end_with_a_mark_where_another_follows() -> None:
    settings = Settings(enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=50)
    result, sink = build(of_offsets(range(5)), settings=settings)
    first, second, third = (sink.files[path].tobytes() for path in result.queues[0].ext_files)
    assert [data[40:42] for data in (first, second, third)] == [b"\xff\xff", b"\xff\xff", b"\0\0"]
    unit = consumequeue_ext.UNIT.parse(third)
    assert (unit.tags_code, unit.bit_map_size) == (4, 0)


def test_dropped_messages_leave_ext_units_behind_only_in_a_replay() -> None:
    settings = Settings(mapped_file_size_consume_queue=100, enable_consume_queue_ext=True)
    codes = {}
    for mode in Mode:
        result, sink = build(of_offsets([0, 1, 1, 2]), mode, settings=settings)
        codes[mode] = [consumequeue_ext.decode_address(code) for _, _, code in units(result.queues[0], sink)[:3]]
    assert codes == {Mode.USEFUL: [0, 20, 40], Mode.FAITHFUL: [0, 20, 60]}


def test_ext_files_that_are_too_short_for_a_unit() -> None:
    settings = Settings(enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=20)
    result, sink = build(of_offsets([0, 1]), settings=settings)
    assert [code for _, _, code in units(result.queues[0], sink)[:2]] == [0, 1]


def batch_units(queue: RebuiltQueue, sink: MemorySink) -> list[tuple[int, int, int]]:
    """(physical offset, first queue offset, messages) of the used units."""
    data = b"".join(sink.files[path].tobytes() for path in queue.files)
    found = np.frombuffer(data, BATCH_UNIT)
    return [tuple(unit) for unit in found[found["size"] != 0][["physical_offset", "msg_base_offset", "batch_size"]].tolist()]


BATCH = Settings(mapper_file_size_batch_consume_queue=4 * 46, batch_topics=frozenset({"TopicA"}))


def built_batches(offsets: Sequence[int], mode: Mode) -> tuple[RebuiltQueue, list[tuple[int, int, int]]]:
    result, sink = build(of_offsets(offsets), mode, settings=BATCH)
    (queue,) = result.queues
    assert queue.kind is QueueKind.BATCH
    return queue, batch_units(queue, sink)


@pytest.mark.parametrize("mode", Mode)
def test_batch_queues_begin_with_their_first_unit(mode: Mode) -> None:
    queue, found = built_batches([7, 8, 9, 10, 11], mode)
    assert found == [(number * RECORD_LENGTH, 7 + number, 1) for number in range(5)]
    assert [path.rpartition("/")[2] for path in queue.files] == ["00000000000000000000", "00000000000000000184"]
    assert (queue.first_offset, queue.end_offset, queue.max_physic_offset) == (7, 12, 400)


def test_batch_queues_in_both_modes() -> None:
    offsets = [0, 1, 2, 3, 4, 2, 3, 9, 5]
    queue, found = built_batches(offsets, Mode.USEFUL)
    assert [base for _, base, _ in found] == [0, 1, 2, 3, 5]
    assert queue.restarts == (Restart(2, 5, 500),)
    assert queue.gaps == (Gap(4, 5, 800),)
    assert queue.misnumbered == (LeftOut(9, 700),)
    assert [base for _, base, _ in built_batches(offsets, Mode.FAITHFUL)[1]] == offsets


@pytest.mark.parametrize(
    ("number", "base", "expected", "refused"),
    [
        ("3", "0", [(0, 3), (3, 1)], 0),
        ("3", None, [(0, 1), (3, 1)], 0),
        ("x", "0", [(3, 1)], 1),
        ("0", "0", [(3, 1)], 1),
        ("70000", "0", [(3, 1)], 1),
    ],
)
def test_inner_batches(tmp_path: Path, number: str, base: str | None, expected: list[tuple[int, int]], refused: int) -> None:
    builder = LogOnly(tmp_path / "store", first_offset=64 * 1024)
    inner = {INNER_NUM: number} | ({INNER_BASE: base} if base else {})
    builder.message(sys_flag=SysFlag.INNER_BATCH, properties=inner).message(queue_offset=3)
    made = made_of(builder, batch_topics=frozenset({"TopicA"}), mapper_file_size_batch_consume_queue=4 * 46)
    assert [(first, count) for _, first, count in batch_units(made.queue(), made.sink)] == expected
    assert made.queues.refused == refused


def test_batch_topics_of_a_release_that_knows_none(tmp_path: Path) -> None:
    made = made_of(LogOnly(tmp_path / "store").message(), "4.9.8", batch_topics=frozenset({"TopicA"}))
    assert made.queue().kind is QueueKind.SIMPLE


def test_text_that_is_no_utf8_is_read_as_java_reads_it(tmp_path: Path) -> None:
    builder = LogOnly(tmp_path / "store").message(tags="TagZ", keys="KeyZ sound", unique_key="id")
    builder.message(tags="other")
    (start,) = builder.log
    log = builder.log[start]
    for text in (b"TagZ", b"KeyZ"):
        at = log.index(text)
        log[at + 3] = 0xFF
    made = made_of(builder)
    tags, key = (decode_java_utf8(text) for text in (b"Tag\xff", b"Key\xff"))
    assert [code for _, _, code in units(made.queue(), made.sink)[:2]] == [java_hash(tags), java_hash("other")]
    (data,) = made.index_files()
    hashes = np.frombuffer(data, ITEM_ROWS, 3, 40 + 4 * builder.slots + ITEM_ROWS.itemsize)["key_hash"].tolist()
    assert hashes == [index_key_hash("TopicA", each) for each in ("id", key, "sound")]
