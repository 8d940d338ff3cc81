"""Findings about index files: header, slots, chains, items, and what of the log the index covers."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from rmqstore.findings import Severity
from rmqstore.formats.index import HEADER, ITEM, ITEM_SIZE, item_position, slot_position
from rmqstore.formats.javahash import index_key_hash
from rmqstore.store.root import Store
from rmqstore.verify.context import Context, Options
from rmqstore.verify.index.match import IndexFiles
from rmqstore.verify.index.views import IndexView, open_views
from tests.support.builder import FIRST_TIMESTAMP, StoreBuilder
from tests.support.stores import case, fresh_store
from tests.support.verifying import verify
from tests.verify.small_stores import SIZE, codes, filled, index_files, log_name, patch, place, verified

SLOTS = 50
WHERE = ("file", "position", "length")


@pytest.fixture
def six(tmp_path: Path) -> StoreBuilder:
    """Six messages with one key each: items 1 to 6 of one file."""
    builder = filled(StoreBuilder(tmp_path, slots=SLOTS), 6)
    builder.build()
    return builder


@pytest.fixture
def rolled(tmp_path: Path) -> StoreBuilder:
    """Twenty keys in three files of at most seven items."""
    builder = StoreBuilder(tmp_path, slots=SLOTS, items=8)
    for number in range(20):
        builder.message(keys=f"key{number:02}", unique_key=None)
    builder.build()
    return builder


def name(builder: StoreBuilder, number: int = 0) -> str:
    return f"index/{index_files(builder.root)[number].name}"


def header(builder: StoreBuilder, field: str, value: int) -> None:
    path = index_files(builder.root)[0]
    fields = HEADER.parse(path.read_bytes())
    patch(path, 0, HEADER.build({**fields, field: value}))


def item(builder: StoreBuilder, number: int, **changes: int) -> None:
    path = index_files(builder.root)[0]
    position = item_position(number, SLOTS)
    fields = ITEM.parse(path.read_bytes()[position : position + ITEM_SIZE])
    patch(path, position, ITEM.build({**fields, **changes}))


@pytest.mark.parametrize(
    ("field", "value", "code", "position", "length", "expected"),
    [
        ("begin_timestamp", 5, "IX-HEADER", 0, 8, FIRST_TIMESTAMP + 1),
        ("end_timestamp", 5, "IX-HEADER", 8, 8, FIRST_TIMESTAMP + 6),
        ("begin_phy_offset", 5, "IX-HEADER", 16, 8, 0),
        ("end_phy_offset", 5, "IX-HEADER", 24, 8, 5 * SIZE),
        ("hash_slot_count", 5, "IX-HEADER", 32, 4, 6),
        ("index_count", 5, "IX-COUNT", 36, 4, 7),
        ("index_count", 0, "IX-COUNT", 36, 4, 7),
        ("index_count", -1, "IX-COUNT", 36, 4, 7),
        ("index_count", 2**31 - 1, "IX-COUNT", 36, 4, 7),
    ],
)
def test_header(six: StoreBuilder, field: str, value: int, code: str, position: int, length: int, expected: int) -> None:
    header(six, field, value)

    (finding,) = verified(six)

    assert place(finding, *WHERE, "expected", "found") == (code, name(six), position, length, expected, value)


def test_releases_that_count_a_slot_for_every_item(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path, slots=SLOTS), 3)
    filled(builder, 3)  # the same keys again
    builder.build()
    assert verified(builder) == []

    header(builder, "hash_slot_count", 6)
    assert verified(builder) == []


def test_slots(six: StoreBuilder) -> None:
    used = index_key_hash("TopicA", "k2") % SLOTS
    empty = next(slot for slot in range(SLOTS) if slot not in {index_key_hash("TopicA", f"k{number}") % SLOTS for number in range(6)})
    path = index_files(six.root)[0]
    patch(path, slot_position(used), bytes(4))
    patch(path, slot_position(empty), (2).to_bytes(4, "big"))

    found = {place(finding, *WHERE, "expected", "found") for finding in verified(six)}

    assert found == {
        ("IX-SLOT", name(six), slot_position(used), 4, 3, 0),
        ("IX-SLOT", name(six), slot_position(empty), 4, 0, 2),
    }


@pytest.mark.parametrize("found", [3, 5, 6, 1, -1])
def test_a_chain_that_leads_elsewhere(six: StoreBuilder, found: int) -> None:
    item(six, 3, prev_index=found)

    (finding,) = verified(six)

    assert place(finding, *WHERE, "expected", "found") == ("IX-CHAIN", name(six), item_position(3, SLOTS), ITEM_SIZE, 0, found)


def test_a_wrong_time(six: StoreBuilder) -> None:
    item(six, 3, time_diff=77)

    (finding,) = verified(six)

    assert place(finding, *WHERE, "offset", "expected", "found") == (
        "IX-TIME",
        name(six),
        item_position(3, SLOTS),
        ITEM_SIZE,
        2 * SIZE,
        0,
        77,
    )


def test_a_wrong_hash(six: StoreBuilder) -> None:
    item(six, 3, key_hash=index_key_hash("TopicA", "k2") + 1)

    told = [finding for finding in verified(six) if finding.code == "RMQ-IX-ITEM"]

    assert [place(finding, *WHERE, "offset") for finding in told] == [("IX-ITEM", name(six), item_position(3, SLOTS), ITEM_SIZE, 2 * SIZE)]


@pytest.mark.parametrize(
    ("number", "offset"), [(3, 7), (6, 7), (1, 3), (3, 2 * SIZE + 1), (6, 5 * SIZE + 1), (3, 100_000), (6, 100_000), (3, -5), (6, -5)]
)
def test_a_wrong_offset(six: StoreBuilder, number: int, offset: int) -> None:
    item(six, number, phy_offset=offset)

    told = verified(six)

    at_item = [finding for finding in told if finding.position == item_position(number, SLOTS)]
    assert "IX-ITEM" in codes(at_item)
    # no other item is blamed
    assert {finding.position for finding in told if finding.length == ITEM_SIZE} == {item_position(number, SLOTS)}
    assert "IX-MISSING" not in codes(told)


@pytest.mark.parametrize("offset", [-SIZE, -1, 1, SIZE // 2, 3 * SIZE, 5 * SIZE, 2**40, -(2**63), 2**63 - 1])
def test_a_wrong_offset_of_the_first_item_is_one_finding(six: StoreBuilder, offset: int) -> None:
    item(six, 1, phy_offset=offset)

    (finding,) = verified(six)

    assert place(finding, "position", "offset", "expected", "found") == ("IX-ITEM", item_position(1, SLOTS), 0, 0, offset)


def test_bytes_where_no_item_is(six: StoreBuilder) -> None:
    for number in (0, 9):
        patch(index_files(six.root)[0], item_position(number, SLOTS) + 3, b"\5")

    found = [place(finding, *WHERE) for finding in verified(six)]

    assert found == [("IX-TRAILING", name(six), item_position(number, SLOTS) + 3, 1) for number in (0, 9)]


def test_lengths_and_names(six: StoreBuilder) -> None:
    path = index_files(six.root)[0]
    content = path.read_bytes()
    path.write_bytes(content[:1000])
    (six.root / "index/notes").write_bytes(b"")

    told = {finding.code.removeprefix("RMQ-"): finding for finding in verified(six)}

    assert place(told["IX-FILELEN"], "file", "expected", "found") == ("IX-FILELEN", f"index/{path.name}", len(content), 1000)
    assert place(told["IX-NAME"], "file") == ("IX-NAME", "index/notes")


# What is in good health


def test_several_files(rolled: StoreBuilder) -> None:
    assert len(index_files(rolled.root)) == 3
    assert verified(rolled) == []


def test_keys_of_one_message_in_two_files(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, slots=SLOTS, items=8)
    for number in range(9):
        builder.message(keys=f"a{number} b{number} c{number}", unique_key=f"u{number}")
    builder.build()

    assert verified(builder) == []


def test_the_first_item_behind_a_roll_may_have_an_odd_time(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, slots=SLOTS, items=8)
    for number in range(16):
        builder.message(keys=f"k{number:02}", store_timestamp=FIRST_TIMESTAMP + number * 60_000)
    builder.build()
    second = index_files(tmp_path)[1]
    assert ITEM.parse(second.read_bytes()[item_position(1, SLOTS) :]).time_diff == 60

    assert verified(builder) == []

    patch(second, item_position(2, SLOTS) + 12, (1).to_bytes(4, "big"))
    assert [place(finding, "file", "found") for finding in verified(builder)] == [("IX-TIME", f"index/{second.name}", 1)]


@pytest.mark.parametrize("index_tags", [False, True])
def test_tag_items_are_optional(tmp_path: Path, index_tags: bool) -> None:
    builder = filled(StoreBuilder(tmp_path, slots=SLOTS, items=8, index_tags=index_tags), 9)
    builder.build()

    assert verified(builder) == []


def test_no_keys_no_items(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path).message().message()
    builder.build()

    assert verified(builder) == []


def test_prepared_messages_are_indexed_and_rolled_back_ones_are_not(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    builder.message(sys_flag=4, keys="a", queue_offset=0).message(sys_flag=12, keys="b", queue_offset=0).message(keys="c", queue_offset=0)
    builder.build()

    assert [len(file.items) for file in builder.index] == [2]
    assert verified(builder) == []


def test_the_last_message_indexed_again(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path, slots=SLOTS), 4)
    behind, builder.offset = builder.offset, builder.offset - SIZE
    builder._index_message("TopicA", {"KEYS": "k3"}, builder.store_timestamp, indexed=True)
    builder.offset = behind
    filled(builder, 2).build()

    (finding,) = verified(builder)

    assert place(finding, *WHERE, "severity") == ("IX-DUPLICATE", name(builder), item_position(5, SLOTS), ITEM_SIZE, Severity.INFO)


# What the index covers


def test_an_index_that_begins_late(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path), 4)
    builder.index = []
    filled(builder, 3).build()

    (finding,) = verified(builder)

    assert place(finding, "offset", "found", "severity") == ("IX-INCOMPLETE", 0, 4, Severity.WARNING)


@pytest.mark.parametrize(("gone", "offset", "found"), [(0, 0, 7), (1, None, 7)])
def test_a_missing_index_file(rolled: StoreBuilder, gone: int, offset: int | None, found: int) -> None:
    index_files(rolled.root)[gone].unlink()

    (finding,) = verified(rolled)

    assert place(finding, "found") == ("IX-INCOMPLETE", found)
    assert offset is None or finding.offset == offset


def test_files_that_overlap(rolled: StoreBuilder) -> None:
    """A copy of the first file under a later name, as after a restore of an old backup."""
    first, second, _ = index_files(rolled.root)
    second.write_bytes(first.read_bytes())

    (found,) = [finding for finding in verified(rolled) if finding.code == "RMQ-IX-ORDER"]

    assert (found.file, found.position, found.offset) == (name(rolled, 1), item_position(1, SLOTS), 0)
    assert found.expected > found.found == 0


def test_no_index_at_all(rolled: StoreBuilder) -> None:
    for path in index_files(rolled.root):
        path.unlink()

    (finding,) = verified(rolled)

    assert place(finding, "expected", "found", "offset") == ("IX-INCOMPLETE", 20, 0, 0)


@pytest.mark.parametrize(("crashed", "severity"), [(False, Severity.ERROR), (True, Severity.INFO)])
def test_an_index_that_ends_early(tmp_path: Path, crashed: bool, severity: Severity) -> None:
    builder = filled(StoreBuilder(tmp_path), 4)
    kept = copy.deepcopy(builder.index)
    filled(builder, 3)
    builder.index = kept
    (builder.crash() if crashed else builder).build()

    behind = next(finding for finding in verified(builder) if finding.code == "RMQ-IX-BEHIND")

    assert place(behind, "offset", "found", "severity") == ("IX-BEHIND", 4 * SIZE, 3, severity)


@pytest.mark.parametrize("number", [0, 3])
def test_a_message_that_was_not_indexed(tmp_path: Path, number: int) -> None:
    builder = filled(StoreBuilder(tmp_path, slots=SLOTS), number)
    kept = copy.deepcopy(builder.index)
    filled(builder, 1, keys="zz")
    builder.index = kept
    filled(builder, 3).build()

    (finding,) = verified(builder)

    if number:
        assert place(finding, *WHERE, "offset") == ("IX-MISSING", name(builder), item_position(number + 1, SLOTS), 0, number * SIZE)
    else:
        assert place(finding, "offset", "found") == ("IX-INCOMPLETE", 0, 1)


def test_items_of_lost_messages_are_not_told_again(six: StoreBuilder) -> None:
    patch(six.root / log_name(), 2 * SIZE + 4, b"\0")

    assert codes(verified(six)) == ["CL-MAGIC", "CQ-LOST"]


def test_an_index_ahead_of_the_log(six: StoreBuilder) -> None:
    patch(six.root / log_name(), 4 * SIZE, bytes(2 * SIZE))

    ahead = next(finding for finding in verified(six) if finding.code == "RMQ-IX-BEYOND")

    assert place(ahead, *WHERE, "offset", "expected", "found") == (
        "IX-BEYOND",
        name(six),
        item_position(5, SLOTS),
        2 * ITEM_SIZE,
        4 * SIZE,
        None,
        4 * SIZE,
    )


def test_expired_messages_leave_their_items(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path, log_file_size=500, slots=SLOTS), 9)
    (builder.build() / log_name()).unlink()

    assert codes(verified(builder)) == ["CQ-EXPIRED"]


def test_slots_and_items_are_found_without_settings(six: StoreBuilder) -> None:
    item(six, 3, time_diff=77)

    sizes = {key: value for key, value in six.settings.items() if key not in ("maxHashSlotNum", "maxIndexNum")}

    assert codes(verify(six.root, sizes)) == ["IX-TIME"]


@pytest.mark.parametrize("begin", [-1, 2**62])
def test_slots_and_items_are_not_found_when_the_header_lies(six: StoreBuilder, begin: int) -> None:
    header(six, "begin_phy_offset", begin)

    sizes = {key: value for key, value in six.settings.items() if key not in ("maxHashSlotNum", "maxIndexNum")}

    assert {code for code in codes(verify(six.root, sizes)) if not code.startswith("IX-")} == set()


def test_items_of_messages_that_no_record_has(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path, log_file_size=500, slots=SLOTS), 9)
    path = builder.build() / log_name(500)
    patch(path, 0, b"\xee" * 400)
    for number in (2, 6):
        patch(index_files(tmp_path)[0], item_position(number + 1, SLOTS) + 4, (number * SIZE + 3).to_bytes(8, "big"))

    told = verified(builder)

    assert {finding.position for finding in told if finding.code == "RMQ-IX-ITEM"} == {item_position(3, SLOTS)}


@pytest.mark.parametrize("number", [0, 4, 6])
def test_a_record_that_lost_its_keys(tmp_path: Path, number: int) -> None:
    builder = StoreBuilder(tmp_path, log_file_size=600, slots=SLOTS)
    for each in range(7):
        builder.message(keys=f"k{each} second", unique_key=f"u{each}")
    log = b"".join(bytes(builder.log[start]) for start in sorted(builder.log))
    keys = log.index(b"KEYS\x01k%d" % number)
    patch(builder.build() / log_name(keys // 600 * 600), keys % 600, b"KEYX")

    told = verified(builder)

    covered = [at for finding in told for at in range(finding.position or 0, (finding.position or 0) + (finding.length or 0), ITEM_SIZE)]
    assert covered == [item_position(3 * number + each, SLOTS) for each in (2, 3)]
    assert set(codes(told)) == {"IX-ITEM"}


@pytest.mark.parametrize("base", ["4.9.8-manyfiles-crash", "5.4.0-manyfiles"])
def test_the_file_that_reaches_an_offset_is_found_without_reading(base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = fresh_store(base, tmp_path)
    store = Store.open(root, settings=case(base).settings(root))
    views = open_views(Context(store, Options()))[0]
    assert len(views) > 1
    ends = {view: [view.item_offset(number) for number in range(max(1, view.items - 1), view.items + 1)] for view in views}
    files = IndexFiles(views)
    monkeypatch.setattr(IndexView, "item_offset", None)
    for offset in {0, *(end + step for several in ends.values() for end in several for step in (-1, 0, 1))}:
        reaching = [number for number, view in enumerate(views) if max(ends[view]) >= offset]
        assert files.first_reaching(offset) == (reaching[0] if reaching else len(views))
