"""Index files of made-up logs: items, chains, time differences, rolls, names; the store builder puts its items one by one."""

from __future__ import annotations

import tempfile
from datetime import UTC, timedelta, timezone
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rmqstore.rebuild.index
from rmqstore.errors import UsageError
from rmqstore.formats import index
from rmqstore.rebuild import IndexBuilder, IndexResult, MemorySink, Mode, Settings
from rmqstore.rebuild.index import following_name
from rmqstore.scan.columns import Fault
from rmqstore.versions import profile_of
from tests.rebuild.columns import FIRST_TIME, QUEUES, batch
from tests.rebuild.rebuilding import rebuilt
from tests.support.builder import FIRST_TIMESTAMP, StoreBuilder

WORDS = st.sampled_from(["a", "b", "order", "é", "k 1", "x  y", ""])
PREPARED, ROLLED_BACK = 4, 12


@st.composite
def built(draw: st.DrawFn) -> tuple[StoreBuilder, str]:
    """A store with few slots and short index files, and a release that writes its kind of items."""
    release = draw(st.sampled_from(["5.3.3", "5.4.0"]))
    store = StoreBuilder(
        Path("unused"),
        log_file_size=8192,
        slots=draw(st.integers(1, 7)),
        items=draw(st.integers(2, 9)),
        index_tags=release == "5.4.0",
    )
    time = FIRST_TIMESTAMP
    for _ in range(draw(st.integers(1, 12))):
        time += draw(st.sampled_from([0, 1, 999, 1000, 65_000, -5000]))
        words = {name: draw(WORDS) for name in ("keys", "unique_key", "tags")}
        store.message(store_timestamp=time, sys_flag=draw(st.sampled_from([0, 0, 0, PREPARED, ROLLED_BACK])), **words)
    return store, release


@pytest.mark.parametrize("tags", ["", "a"])
@pytest.mark.parametrize("followers", [1, 2])
def test_a_record_without_keys_asks_for_a_file_behind_a_full_one(tags: str, followers: int) -> None:
    builder = StoreBuilder(Path("unused"), slots=1, items=2)
    builder.message(keys="k", unique_key="u", tags=tags)
    for _ in range(followers):
        builder.message(keys="", unique_key="", tags=tags)
    are_those_of_items_put_one_by_one(builder, "5.3.3")


@pytest.mark.exhaustive
@given(built())
def test_files_are_those_of_items_put_one_by_one(given_store: tuple[StoreBuilder, str]) -> None:
    are_those_of_items_put_one_by_one(*given_store)


@given(built(), st.integers(1, 3))
def test_files_are_the_same_however_few_items_wait_in_memory(given_store: tuple[StoreBuilder, str], items: int) -> None:
    with patch.object(rmqstore.rebuild.index, "_BLOCK", items):
        are_those_of_items_put_one_by_one(*given_store)


def are_those_of_items_put_one_by_one(builder: StoreBuilder, release: str) -> None:
    contents = builder.contents()
    expected = [contents[name] for name in sorted(contents) if name.startswith("index/")]
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "commitlog").mkdir()
        for name, data in contents.items():
            if name.startswith("commitlog/"):
                (Path(directory) / name).write_bytes(data)
        made = rebuilt(Path(directory), builder.settings, release)
    assert made.index_files() == expected
    names = [file.path for file in made.index.files]
    assert names == sorted(set(names))
    assert made.index.full_until == (0 if len(names) < 2 else int(index.HEADER.parse(expected[-2]).end_timestamp))
    assert [file.index_count for file in made.index.files] == [int(index.HEADER.parse(data).index_count) for data in expected]


def put(
    rows: list[dict[str, int]], keys: list[tuple[int, int, int]], settings: Settings, release: str = "5.3.3", **options: object
) -> Made:
    """One batch into an index."""
    sink = MemorySink()
    builder = IndexBuilder(QUEUES.__getitem__, settings, profile_of(release), sink, **options)  # type: ignore[arg-type]
    builder.put(batch(rows, keys))
    return builder.finish(), sink


Made = tuple[IndexResult, MemorySink]
TINY = Settings(max_hash_slot_num=4, max_index_num=3)


@pytest.mark.parametrize(("release", "count"), [("4.9.8", 0), ("5.3.3", 1)])
def test_a_file_without_items(release: str, count: int) -> None:
    """Records without keys make a file; releases that flush at the stop write that its next item is the first."""
    made, sink = put([{}, {}], [], TINY, release)
    (file,) = made.files
    assert file.index_count == count
    assert not sink.files[file.path][:36].any()
    assert int(index.HEADER.parse(sink.files[file.path].tobytes()).index_count) == count


@pytest.mark.parametrize(("release", "count"), [("4.9.8", 0), ("5.3.3", 1)])
def test_a_record_without_keys_behind_a_full_file(release: str, count: int) -> None:
    made, _ = put([{}, {}, {}], [(1, 0, 0), (2, 1, 0)], TINY, release)
    full, empty = made.files
    assert (full.index_count, empty.index_count) == (3, count)
    assert (empty.begin_timestamp, empty.end_timestamp) == (full.end_timestamp, full.end_timestamp)
    assert (empty.begin_phy_offset, empty.end_phy_offset) == (full.end_phy_offset, full.end_phy_offset)
    assert made.full_until == full.end_timestamp


def test_a_full_file_with_nothing_behind_it_is_the_last() -> None:
    made, _ = put([{}, {}], [(1, 0, 0), (2, 1, 0)], TINY)
    assert [file.index_count for file in made.files] == [3]
    assert made.full_until == 0


def test_tags_of_a_full_file_make_no_other() -> None:
    """A key that becomes no item needs no place."""
    made, _ = put([{}, {}], [(1, 0, 0), (2, 1, 0), (3, 1, 1)], TINY, "5.3.3")
    assert len(made.files) == 1
    made, _ = put([{}, {}], [(1, 0, 0), (2, 1, 0), (3, 1, 1)], TINY, "5.4.0")
    assert [file.index_count for file in made.files] == [3, 2]


def test_keys_of_one_message_in_two_files() -> None:
    made, _ = put([{}], [(1, 0, 0), (2, 0, 0), (3, 0, 0)], TINY)
    assert [file.index_count for file in made.files] == [3, 2]
    assert made.files[1].begin_phy_offset == made.files[0].end_phy_offset


def test_names_are_wall_clocks_that_rise() -> None:
    east = timezone(timedelta(hours=8))
    rows = [{"store_timestamp": FIRST_TIME + step} for step in (0, 0, -10_000, 7)]
    made, _ = put(rows, [(1, row, 0) for row in range(4)], Settings(max_hash_slot_num=4, max_index_num=2), zone=east)
    assert [file.path for file in made.files] == [f"index/20231115061320{ms:03d}" for ms in (0, 1, 2, 7)]


@pytest.mark.parametrize("time", [-(2**63), -1, 0, 2**63 - 1])
def test_times_that_no_calendar_has(time: int) -> None:
    made, _ = put([{"store_timestamp": time}, {}], [(1, 0, 0), (1, 1, 0)], Settings(max_hash_slot_num=4, max_index_num=2), zone=UTC)
    assert len({file.path for file in made.files}) == 2
    assert [len(file.path) for file in made.files] == [len("index/") + 17] * 2


def test_the_name_behind_a_name() -> None:
    assert following_name("20231231235959999") == "20240101000000000"


def test_a_file_without_places_is_refused() -> None:
    with pytest.raises(UsageError):
        put([{}], [], Settings(max_hash_slot_num=4, max_index_num=1))


def test_no_index_where_the_broker_writes_none() -> None:
    assert put([{}], [(1, 0, 0)], Settings(message_index_enable=False))[0].files == ()
    off = Settings(max_hash_slot_num=4, max_index_num=3, index_file_write_enable=False)
    assert put([{}], [(1, 0, 0)], off, "5.4.0")[0].files == ()
    assert len(put([{}], [(1, 0, 0)], off, "5.3.3")[0].files) == 1


def test_broken_records_are_not_pointed_at() -> None:
    rows = [{}, {"faults": int(Fault.BODY_CRC)}, {}]
    keys = [(1, 0, 0), (2, 1, 0), (3, 2, 0)]
    settings = Settings(max_hash_slot_num=4, max_index_num=9)
    useful, _ = put(rows, keys, settings)
    assert (useful.refused, useful.files[0].index_count) == (1, 3)
    faithful, _ = put(rows, keys, settings, mode=Mode.FAITHFUL)
    assert (faithful.refused, faithful.files[0].index_count) == (0, 4)
