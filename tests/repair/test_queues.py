"""Consume queues after a repair: the broker's own bytes where they can be known, neighbours where messages are lost, the rest untouched."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from rmqstore.formats.consumequeue import PRE_BLANK, UNIT_SIZE
from rmqstore.rebuild import Mode
from rmqstore.repair.derived.consumequeues import LostUnits, QueueWish, plan_queues
from rmqstore.repair.derived.judgement import judge, present_log
from rmqstore.repair.derived.requests import Planning
from rmqstore.repair.log.future import FutureLog, LostUnit
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.plan.model import ActionKind, Plan
from rmqstore.repair.plan.staging import Staging
from rmqstore.scan.unitruns import UNIT_ROWS
from rmqstore.store.root import Store
from tests.repair.damaged_queues import Mending, described
from tests.repair.queuefiles import QUEUE_INJURIES
from tests.repair.recovering import Damaged, view_of
from tests.support import stores
from tests.support.builder import StoreBuilder
from tests.support.cli import rmqstore
from tests.support.damages import set_field
from tests.support.verifying import verify
from tests.verify.small_stores import SIZE, filled, queue_name, unit

CASES = [case.name for case in stores.cases()]
CLEAN = [case.name for case in stores.cases() if not case.crashed]
INJURED = ("4.9.8-plain", "5.4.0-manyfiles", "5.3.3-cqext", "5.5.1-lmq", "broker-5.3.3-dledger-clean")
QUEUE = queue_name()


def planned(store: Store, wish: QueueWish | None = None, log: FutureLog | None = None, release: str = "5.3.3") -> Plan:
    """The plan for the queues of a store and a future log, by default the log as it is."""
    with Staging.temporary() as staging:
        builder = PlanBuilder(store, staging, "test", release)
        judgement = judge(store)
        plan_queues(Planning(builder), store, log or present_log(store, judgement.log), judgement, wish or QueueWish())
        return builder.build()


def files_below(root: Path, part: str) -> list[Path]:
    return sorted(path for path in (root / part).rglob("*") if path.is_file() and path.name.isdigit())


@pytest.mark.parametrize("name", CLEAN)
def test_queues_of_a_clean_store_are_what_a_rebuild_makes(name: str) -> None:
    case = stores.case(name)
    root = stores.sample_store(name)
    store = Store.open(root, settings=case.settings(root))

    assert described(planned(store, QueueWish(rebuild=True), release=case.release)) == []


@pytest.mark.limited(30)
@pytest.mark.sampled(8)
@pytest.mark.parametrize("injury", QUEUE_INJURIES)
@pytest.mark.parametrize("name", INJURED)
def test_an_injured_queue_gets_the_bytes_of_the_broker_back(name: str, injury: str, tmp_path: Path) -> None:
    mending = Mending.of_sample(name, tmp_path)
    before = mending.contents
    queues = files_below(mending.root, "consumequeue")
    for path in (queues[0], queues[len(queues) // 2], queues[-1]):
        QUEUE_INJURIES[injury](path)

    result = mending.mend()

    assert mending.contents == before
    assert (result.errors, result.left) == ({}, 0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["4.9.8-lmq", "5.3.3-schedule", "5.3.3-transactions", "5.5.1-batch", "5.5.1-multipath"])
def test_all_queues_are_lost(name: str, tmp_path: Path) -> None:
    mending = Mending.of_sample(name, tmp_path)
    before = mending.contents
    shutil.rmtree(mending.root / "consumequeue")

    result = mending.rebuild_queues()

    assert mending.contents == before
    assert (result.errors, result.left) == ({}, 0)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("injury", ["deleted", "half", "zeros", "noise", "hole", "middle bit", "foreign file beside it"])
def test_an_injured_batch_queue_gets_the_bytes_of_the_broker_back(injury: str, tmp_path: Path) -> None:
    mending = Mending.of_sample("5.1.4-batchcq", tmp_path)
    before = mending.contents
    QUEUE_INJURIES[injury](files_below(mending.root, "batchconsumequeue")[0])

    result = mending.mend()

    assert mending.contents == before
    assert (result.errors, result.left) == ({}, 0)


@pytest.mark.parametrize("known", ["nothing", "not its type"])
@pytest.mark.parametrize("lost", ["file", "entry"])
def test_one_batch_queue_of_a_topic_whose_type_no_configuration_has(known: str, lost: str, tmp_path: Path) -> None:
    """The other queue of the topic shows the type; entries of simple queues in a batch queue would be garbage."""
    name = "broker-5.3.3-cqext-crash"
    root = stores.fresh_store(name, tmp_path / "store")
    for path in (root / "config" / "topics.json", root / "config" / "topics.json.bak"):
        if known == "nothing":
            path.unlink()
        else:
            path.write_text(path.read_text().replace('"queue.type":"BatchCQ"', ""))
    queue = root / "batchconsumequeue" / "bcq" / "0" / "00000000000000000000"
    whole = queue.read_bytes()
    if lost == "file":
        queue.unlink()
    else:
        queue.write_bytes(whole[:46] + bytes(46) + whole[92:])

    rmqstore("recover", root, "--yes", "--broker-version", "5.3.3", *stores.case(name).set_options(stores.sample_store(name)))

    assert queue.read_bytes() == whole
    assert not (root / "consumequeue" / "bcq").exists()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("injury", ["deleted", "empty", "half", "zeros", "noise", "shifted", "hole", "foreign file beside it"])
def test_an_injured_extension_is_made_to_agree_again(injury: str, tmp_path: Path) -> None:
    mending = Mending.of_sample("5.3.3-cqext", tmp_path)
    queues = {path: content for path, content in mending.contents.items() if path.startswith("consumequeue/")}
    injured = files_below(mending.root, "consumequeue_ext")[-1]
    QUEUE_INJURIES[injury](injured)

    result = mending.mend()

    assert (result.errors, result.left) == ({}, 0)
    name = f"consumequeue/{injured.parent.relative_to(mending.root / 'consumequeue_ext').as_posix()}/"
    changed = {path for path, content in mending.contents.items() if path in queues and content != queues[path]}
    assert all(path.startswith(name) for path in changed)


@pytest.mark.parametrize("where", ["store time of all", "heads of all"])
def test_a_head_is_written_again_around_its_bitmap(where: str, tmp_path: Path) -> None:
    """A start reads ext units one after the other: bytes of a bitmap that are left over after the last one are a size to it."""
    mending = Mending.of_sample("5.3.3-cqext", tmp_path)
    before = mending.contents
    for path in files_below(mending.root, "consumequeue_ext"):
        data = bytearray(path.read_bytes())
        position = 0
        while size := int.from_bytes(data[position : position + 2], "big"):
            changed = slice(position + 10, position + 18) if where == "store time of all" else slice(position, position + 20)
            data[changed] = b"\x55" * (changed.stop - changed.start)
            position += size
        path.write_bytes(data)

    result = mending.mend()

    assert (result.errors, result.left) == ({}, 0)
    after = mending.contents
    if where == "store time of all":
        assert after == before
    for name in (name for name in after if name.startswith("consumequeue_ext/")):
        position, data = 0, after[name]
        while size := int.from_bytes(data[position : position + 2], "big"):
            assert int.from_bytes(data[position + 18 : position + 20], "big") == size - 20
            position += size
        assert not any(data[position:])


def test_the_plan_says_which_extensions_get_no_bit_maps(tmp_path: Path) -> None:
    mending = Mending.of_sample("5.3.3-cqext", tmp_path)
    directories = sorted({path.parent for path in files_below(mending.root, "consumequeue_ext")})
    for directory in directories[1:]:
        shutil.rmtree(directory)
    first = directories[0] / "0".zfill(20)
    first.write_bytes(bytes(20) + first.read_bytes()[20:])

    notes = mending.mend().plan.notes

    name = directories[1].relative_to(mending.root / "consumequeue_ext").as_posix()
    others = len(directories) - 2
    counted = {0: ""}.get(others, f" and {others} other queue" + "s" * (others > 1))
    assert [note for note in notes if "bit maps" in note and note.startswith(f"The new ext entries of {name}{counted} have no")]


def test_what_no_start_gets_through_is_taken_away(tmp_path: Path) -> None:
    """Two bytes after the last ext unit, which a start takes for the length of another one."""
    mending = Mending.of_sample("4.9.8-cqext", tmp_path)
    before = mending.contents
    path = files_below(mending.root, "consumequeue_ext")[-1]
    data = bytearray(path.read_bytes())
    end = 0
    while size := int.from_bytes(data[end : end + 2], "big"):
        end += size
    data[end : end + 2] = b"\x7f\xff"
    path.write_bytes(data)

    found = verify(mending.root, mending.settings)
    result = mending.mend()

    assert [(finding.code, finding.position) for finding in found] == [("RMQ-CQ-EXT", end)]
    assert mending.contents == before
    assert (result.errors, result.left) == ({}, 0)


@pytest.mark.parametrize("halved", [True, False], ids=["old queue", "whole queue"])
def test_records_before_queue_offsets_that_jump_keep_their_places(halved: bool, tmp_path: Path) -> None:
    """The last two records of a queue have QUEUEOFFSETs that agree, and there is no room for what they leave out but in the whole log.

    A broker can have numbered them so; entries that it wrote after missing messages leave no gap, and are no evidence.
    """
    base, key, by = "5.3.3-manyfiles-crash", ("TopicA", 3), 1000
    store = Damaged(base, stores.fresh_store(base, tmp_path))
    view = view_of(base)
    records = [record for record in view.records if (record.record.topic, record.record.queue_id) == key]
    for record in records[-2:]:
        set_field(record, "queue_offset", record.record.queue_offset + by).apply(store.root)
    for path in files_below(store.root, "consumequeue/TopicA/3") if halved else ():
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2].ljust(len(data), b"\0"))

    result = store.recover()

    assert (result.errors, result.left, result.plan.lost) == ({}, 0, ())
    places = [record.record.queue_offset + (by if record in records[-2:] else 0) for record in records]
    assert [store.unit((*key, place)) for place in places] == [(record.offset, record.size) for record in records]


def test_units_before_the_log_stay_and_those_in_it_come_back(tmp_path: Path) -> None:
    mending = Mending.of_sample("4.9.8-headless", tmp_path)
    log_start = mending.open().message_log.min_offset
    queues = files_below(mending.root, "consumequeue")
    before = {path: np.frombuffer(path.read_bytes(), UNIT_ROWS) for path in queues}
    for path, units in before.items():
        living = units["physical_offset"] >= log_start
        damaged = units.copy()
        damaged["size"][living] = 7
        path.write_bytes(damaged.tobytes())

    result = mending.mend()

    assert (result.errors, result.left) == ({}, 0)
    assert {path: path.read_bytes() for path in queues} == {path: units.tobytes() for path, units in before.items()}


def test_a_lost_queue_of_a_log_without_its_beginning_starts_where_the_log_does(tmp_path: Path) -> None:
    mending = Mending.of_sample("4.9.8-headless", tmp_path)
    log_start = mending.open().message_log.min_offset

    def living() -> dict[str, set[tuple[int, bytes]]]:
        found: dict[str, set[tuple[int, bytes]]] = {}
        for path in files_below(mending.root, "consumequeue"):
            units = np.frombuffer(path.read_bytes(), UNIT_ROWS)
            for place in np.flatnonzero(units["physical_offset"] >= log_start).tolist():
                entry = int(path.name) // UNIT_SIZE + place, units[place].tobytes()
                found.setdefault(path.parent.as_posix(), set()).add(entry)
        return found

    before = living()
    shutil.rmtree(mending.root / "consumequeue")

    result = mending.rebuild_queues()

    assert (result.errors, result.left) == ({}, 0)
    assert living() == before


# A queue of six messages, of which some are lost


@pytest.fixture
def six(tmp_path: Path) -> StoreBuilder:
    builder = filled(StoreBuilder(tmp_path), 6)
    builder.build()
    return builder


def without(store: Store, *lost: int, end: int = 6) -> FutureLog:
    """The log of `six` when the messages with these numbers are lost, and those from `end` on cut away."""
    units = tuple(LostUnit("TopicA", 0, number, number * SIZE, SIZE) for number in lost)
    damages = tuple((number * SIZE, (number + 1) * SIZE) for number in lost)
    return FutureLog(store.message_log.files, end * SIZE, damages=damages, lost_units=units)


def written(plan: Plan) -> list[tuple[int, bytes]]:
    """(position, bytes) of every change in the queue, which is all there is; zeros for what is zeroed."""
    assert {action.path for action in plan.actions} <= {QUEUE}
    return [
        (action.position, action.contents.data if action.contents is not None and action.contents.data else bytes(action.length))
        for action in plan.actions
        if action.in_place
    ]


@pytest.mark.parametrize(
    ("lost", "position", "expected"),
    [
        ((2,), 40, unit(SIZE)),
        ((2, 3), 40, unit(SIZE) * 2),
        ((0,), 0, unit(SIZE)),
        ((0, 1), 0, unit(2 * SIZE) * 2),
        ((5,), 100, unit(4 * SIZE)),
        ((4, 5), 80, unit(3 * SIZE) * 2),
    ],
)
def test_units_of_lost_messages_repeat_a_neighbour(six: StoreBuilder, lost: tuple[int, ...], position: int, expected: bytes) -> None:
    store = Store.open(six.root, settings=six.settings)

    assert written(planned(store, log=without(store, *lost))) == [(position, expected)]


def test_the_unit_of_a_placeholder_points_at_it(six: StoreBuilder) -> None:
    """A record that carries topic and queue of the lost message is what its unit goes on pointing at."""
    store = Store.open(six.root, settings=six.settings)

    assert written(planned(store, QueueWish(lost_units=LostUnits.PLACEHOLDER), without(store, 2, 5))) == []


def test_units_behind_a_cut_become_zeros(six: StoreBuilder) -> None:
    store = Store.open(six.root, settings=six.settings)

    (action,) = planned(store, log=without(store, end=4)).actions

    # Of the 40 bytes from 80 on, the first six are zero already.
    assert (action.kind, action.position, action.length, action.code) == (ActionKind.ZERO, 86, 34, "RMQ-CQ-BEYOND")


def test_a_queue_that_loses_everything_loses_its_files(six: StoreBuilder) -> None:
    store = Store.open(six.root, settings=six.settings)

    assert described(planned(store, log=without(store, end=0))) == [("quarantine", QUEUE)]


# Histories that are odd and served as they are


@pytest.fixture
def restarted(tmp_path: Path) -> StoreBuilder:
    """A queue that was lost once: its offsets begin again at 0, and it has units for the new messages only."""
    builder = StoreBuilder(tmp_path)
    for queue_offset in (0, 1, 2, 0, 1):
        builder.message(tags="T", queue_offset=queue_offset)
    builder.build()
    path = builder.root / QUEUE
    size = record_size(builder)
    path.write_bytes((unit(3 * size, size) + unit(4 * size, size)).ljust(path.stat().st_size, b"\0"))
    return builder


def record_size(builder: StoreBuilder) -> int:
    """Bytes of each of the records, as the first unit says."""
    return int(np.frombuffer((builder.root / QUEUE).read_bytes(), UNIT_ROWS)["size"][0])


def test_a_queue_without_an_error_is_left_alone(restarted: StoreBuilder) -> None:
    store = Store.open(restarted.root, settings=restarted.settings)
    assert [finding.code for finding in verify(restarted.root, restarted.settings, ("consumequeue",))] == []

    assert described(planned(store)) == []


def test_a_faithful_rebuild_puts_messages_where_a_broker_puts_them(restarted: StoreBuilder) -> None:
    """0, 1, 2, then the new 0 at the end; the new 1 finds its place taken."""
    store = Store.open(restarted.root, settings=restarted.settings)
    size = record_size(restarted)

    with Staging.temporary() as staging:
        builder = PlanBuilder(store, staging, "test", "5.3.3")
        judgement = judge(store)
        plan_queues(Planning(builder), store, present_log(store, judgement.log), judgement, QueueWish(rebuild=True, mode=Mode.FAITHFUL))
        (action,) = builder.build().actions
        assert action.kind is ActionKind.REPLACE
        assert action.contents is not None and action.contents.file is not None
        units = (staging.directory / action.contents.file).read_bytes()

    assert units.rstrip(b"\0") == b"".join(unit(number * size, size) for number in range(4)).rstrip(b"\0")
    assert described(planned(store, QueueWish(rebuild=True))) == []


def test_queues_that_may_be_missing_on_purpose_are_rebuilt_by_name_only(six: StoreBuilder) -> None:
    six.file("config/topics.json", b'{"topicConfigTable":{"SELF_TEST_TOPIC":{}}}').build()
    shutil.rmtree(six.root / "consumequeue" / "TopicA")
    store = Store.open(six.root, settings=six.settings)

    everything = planned(store, QueueWish(rebuild=True))
    named = planned(store, QueueWish(rebuild=True, topics=frozenset({"TopicA"})))

    assert (described(everything), len(everything.notes)) == ([], 1)
    assert described(named) == [("create", QUEUE)]


def test_a_queue_that_no_record_speaks_for(six: StoreBuilder) -> None:
    """Pre-blanks and units of nothing go; what expired with old log files stays."""
    other = six.root / queue_name(topic="TopicB")
    other.parent.mkdir(parents=True)
    other.write_bytes((PRE_BLANK * 2).ljust((six.root / QUEUE).stat().st_size, b"\0"))
    store = Store.open(six.root, settings=six.settings)

    assert described(planned(store)) == [("quarantine", queue_name(topic="TopicB"))]


def test_of_the_queues_that_were_named_only_those_that_need_it(six: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    six.build()
    store = Store.open(six.root, settings=six.settings)
    wish = QueueWish(rebuild=True, topics=frozenset({"TopicA"}), only_needed=True)
    other = QueueWish(rebuild=True, topics=frozenset({"TopicB"}), only_needed=True)
    with monkeypatch.context() as nothing:
        nothing.setattr("rmqstore.repair.derived.rebuild._pass", lambda *_, **__: pytest.fail("queues that are right were made again"))
        assert described(planned(store, wish)) == []
        (six.root / QUEUE).write_bytes(bytes(len((six.root / QUEUE).read_bytes())))
        assert described(planned(store, other)) == []

    assert {path for _, path in described(planned(store, wish))} == {QUEUE}
