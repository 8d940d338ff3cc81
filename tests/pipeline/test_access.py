"""Messages found through consume queues and index are those of the whole log, and what is read is a small part of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.errors import UnreadableError
from rmqstore.formats.consumequeue import UNIT, UNIT_SIZE, ZERO_UNIT
from rmqstore.formats.sysflag import TransactionType, transaction_type
from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.tables import access
from rmqstore.pipeline.tables.messages import TABLE
from rmqstore.pipeline.tables.ranges import RangesPart
from rmqstore.pipeline.tables.selection import Condition, Selection
from rmqstore.pipeline.tables.where import conditions
from rmqstore.reading.progress import silent
from tests.pipeline.reading import Row, at_sample
from tests.support.builder import FIRST_TIMESTAMP, StoreBuilder
from tests.support.stores import case, cases, sample_store

COLUMNS = ("position", "topic", "queue_id", "queue_offset", "sys_flag", "unique_key", "keys")
MESSAGES = 600
QUEUES = "consumequeue/Rare/0/"


def found(at: StoreAt, given: dict[str, Condition] | str, *, derived: bool) -> tuple[list[Row], int]:
    """The rows, and the bytes of the parts."""
    met = conditions(given, TABLE) if isinstance(given, str) else given
    selection = Selection(COLUMNS, met, derived)
    parts = TABLE.parts(at, selection)
    rows = [row for part in parts for batch in TABLE.read(part, selection, silent) for row in batch.to_pylist()]
    return rows, sum(part.size for part in parts)


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small stores have ranges, too."""
    monkeypatch.setattr(access, "NEAR", 256)


@pytest.fixture
def built(near: None, tmp_path: Path) -> StoreAt:
    """Every twentieth message is of a rare topic; one in a minute, so that almost all are before the checkpoint."""
    builder = StoreBuilder(tmp_path / "store", log_file_size=128 * 1024, queue_file_size=10 * UNIT_SIZE)
    for number in range(MESSAGES):
        topic = "Rare" if number % 20 == 7 else "Common"
        time = FIRST_TIMESTAMP + number * 60_000
        builder.message(topic, b"x" * 1000, keys=f"a{number} b{number}", unique_key=f"id {number}", store_timestamp=time)
    builder.stop().build()
    return StoreAt.of(builder.root, None, builder.settings)


CHOSEN = (
    "topic = 'Rare'",
    "topic = 'Rare' and queue_id = 0",
    "topic = 'Rare' and queue_offset between 11 and 12",
    "topic = 'Rare' and queue_offset in (0, 25)",
    "topic in ('Rare', 'Common') and queue_offset = 5",
    "topic = 'Rare' and physical_offset between 50000 and 90000",
    "topic = 'Rare' and store_timestamp < 1700000600000",
    "unique_key = 'id 307' and topic = 'Rare'",
    "keys = 'a311 b311' and topic = 'Common'",
    "unique_key in ('id 1', 'id 2', 'nothing') and topic in ('Rare', 'Common')",
    "topic = 'Rare' and queue_offset > 1000",
)


@pytest.mark.parametrize("where", CHOSEN)
def test_rows_are_those_of_the_whole_log(where: str, built: StoreAt) -> None:
    rows, size = found(built, where, derived=True)

    assert rows == found(built, where, derived=False)[0]
    assert size < MESSAGES * 1000 // 3


def test_a_key_that_is_one_of_several_is_no_value_of_the_column(built: StoreAt) -> None:
    assert found(built, "keys = 'a311' and topic = 'Common'", derived=True)[0] == []


@pytest.mark.parametrize("where", ["queue_id = 0", "unique_key = 'id 307'", "topic = '%LMQ%x'", "topic = 'Other'"])
def test_what_no_queue_and_no_index_answers_is_searched_in_the_whole_log(where: str, built: StoreAt) -> None:
    assert found(built, where, derived=True) == found(built, where, derived=False)


def _without_first_file(root: Path) -> None:
    (root / QUEUES / "00000000000000000000").unlink()


def _without_middle_file(root: Path) -> None:
    (root / QUEUES / f"{10 * UNIT_SIZE:020}").unlink()


def _with_hole(root: Path) -> None:
    with (root / QUEUES / "00000000000000000000").open("r+b") as file:
        file.seek(3 * UNIT_SIZE)
        file.write(ZERO_UNIT * 2)


def _without_queue(root: Path) -> None:
    shutil.rmtree(root / QUEUES)


def _with_queues_that_end_early(root: Path) -> None:
    for queue in (root / "consumequeue").glob("*/*"):
        for path in sorted(queue.iterdir())[2:]:
            path.write_bytes(bytes(path.stat().st_size))


def _without_checkpoint(root: Path) -> None:
    (root / "checkpoint").unlink()


def _without_index(root: Path) -> None:
    shutil.rmtree(root / "index")


def _without_an_index_file(root: Path) -> None:
    sorted((root / "index").iterdir())[1].unlink()


def _with_damaged_index_header(root: Path) -> None:
    for path in (root / "index").iterdir():
        with path.open("r+b") as file:
            file.seek(16)
            file.write(bytes(8))


@pytest.mark.parametrize(
    "change",
    [
        _without_first_file,
        _without_middle_file,
        _with_hole,
        _without_queue,
        _with_queues_that_end_early,
        _without_checkpoint,
        _without_index,
        _without_an_index_file,
        _with_damaged_index_header,
    ],
)
def test_what_is_not_derived_is_searched_in_the_log(change: Callable[[Path], None], built: StoreAt) -> None:
    change(built.directory)

    for where in CHOSEN:
        assert found(built, where, derived=True)[0] == found(built, where, derived=False)[0], where


def test_an_entry_that_leads_to_another_message_ends_the_query(built: StoreAt) -> None:
    with (built.directory / QUEUES / "00000000000000000000").open("r+b") as file:
        file.seek(4 * UNIT_SIZE)
        wrong = UNIT.parse(file.read(UNIT_SIZE))
        file.seek(4 * UNIT_SIZE)
        common, *_ = found(built, "topic = 'Common' and queue_offset = 300", derived=False)[0]
        file.write(UNIT.build({**wrong, "physical_offset": common["position"]}))

    with pytest.raises(UnreadableError, match="Queues have 1 entries"):
        found(built, "topic = 'Rare'", derived=True)


def test_an_entry_with_a_wrong_size_leads_to_its_message(built: StoreAt) -> None:
    with (built.directory / QUEUES / "00000000000000000000").open("r+b") as file:
        file.seek(4 * UNIT_SIZE + 8)
        file.write((100).to_bytes(4, "big"))

    assert found(built, "topic = 'Rare'", derived=True)[0] == found(built, "topic = 'Rare'", derived=False)[0]


def test_files_of_the_log_that_are_gone_have_no_rows(built: StoreAt) -> None:
    for path in sorted((built.directory / "commitlog").iterdir())[:2]:
        path.unlink()

    for where in CHOSEN:
        assert found(built, where, derived=True)[0] == found(built, where, derived=False)[0], where


@pytest.mark.parametrize("name", [one.name for one in cases()])
def test_sample_stores(name: str, near: None) -> None:
    at = at_sample(case(name), sample_store(name))
    everything = found(at, {}, derived=False)[0]
    in_parts = 0
    for topic in sorted({row["topic"] for row in everything}):
        of_topic = [row for row in everything if row["topic"] == topic]
        middle = of_topic[len(of_topic) // 2]
        for names in (("topic",), ("topic", "queue_id"), ("topic", "queue_id", "queue_offset"), ("unique_key", "topic"), ("keys", "topic")):
            met = {one: Condition(among=frozenset({middle[one]})) for one in names if middle[one] is not None}
            expected = [row for row in found(at, met, derived=False)[0] if is_listed(row)]
            selection = Selection(COLUMNS, met, True)
            in_parts += any(isinstance(part, RangesPart) for part in TABLE.parts(at, selection))
            assert [row for row in found(at, met, derived=True)[0] if is_listed(row)] == expected, met
    store = at.open()
    assert in_parts or not everything or store.rocksdb_queues


def is_listed(row: Row) -> bool:
    """Whether brokers give it an entry."""
    return transaction_type(row["sys_flag"]) not in (TransactionType.PREPARED, TransactionType.ROLLBACK)
