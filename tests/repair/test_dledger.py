"""Damages of a member of a DLedger group: what the entries prove is written as it was, other members give the rest, and a cut says so."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.formats.dledger import DEFAULT_INDEX_FILE_SIZE, END_OF_FILE, ENTRY_HEADER, INDEX_UNIT, INDEX_UNIT_SIZE
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.record import decode_record
from tests.support import stores
from tests.support.cli import Run, rmqstore
from tests.support.stores import content
from tests.verify.one_check import patch

NAME = "broker-5.3.3-dledger-clean"
DIRECTORY = "dledger-n0"
DATA, NEXT, INDEX = f"{DIRECTORY}/data/{0:020d}", f"{DIRECTORY}/data/{1 << 20:020d}", f"{DIRECTORY}/index/{0:020d}"
HEADER, UNIT = fixed_layout(ENTRY_HEADER), fixed_layout(INDEX_UNIT)
REFUSED = 3

Damage = Callable[[Path], None]


def entries(root: Path, name: str = DATA) -> list[tuple[int, int]]:
    """Where the entries of a data file begin, and their sizes."""
    data = (root / name).read_bytes()
    found, position = [], 0
    while int.from_bytes(data[position : position + 4], "big") == 1:
        size = int.from_bytes(data[position + 4 : position + 8], "big")
        found.append((position, size))
        position += size
    return found


def header(field: str, number: int) -> Damage:
    """One bit of a field of the header of an entry, the others as they were."""

    def change(root: Path) -> None:
        place = entries(root)[number][0] + HEADER[field].end - 1
        patch(root / DATA, place, bytes([(root / DATA).read_bytes()[place] ^ 2]))

    return change


def of_entry(number: int, offset: int, data: bytes, name: str = DATA) -> Damage:
    """Bytes from an offset inside an entry on."""
    return lambda root: patch(root / name, entries(root, name)[number][0] + offset, data)


def of_index(number: int, data: bytes) -> Damage:
    return lambda root: patch(root / INDEX, number * INDEX_UNIT_SIZE, data)


def end_mark(data: bytes) -> Damage:
    """The mark at the end of the first data file, and what follows it."""

    def change(root: Path) -> None:
        start, size = entries(root)[-1]
        patch(root / DATA, start + size, data)

    return change


def tail(root: Path) -> None:
    start, size = entries(root, NEXT)[-1]
    patch(root / NEXT, start + size, b"\x55" * 700)


PROVEN: dict[str, Damage] = {
    **{
        f"{field} of entry {number}": header(field, number)
        for field in ("magic", "size", "index", "term", "pos", "channel", "body_len")
        for number in (0, 1, 200, -1)
    },
    "three headers in a row": of_entry(100, 0, b"\x55" * 48),
    "the index is gone": lambda root: (root / INDEX).unlink(),
    "the index is empty": lambda root: (root / INDEX).write_bytes(b""),
    "the index is half": lambda root: (root / INDEX).write_bytes((root / INDEX).read_bytes()[:5000]),
    "units are zero": of_index(20, bytes(100 * INDEX_UNIT_SIZE)),
    "units are noise": of_index(700, b"\x5a" * (300 * INDEX_UNIT_SIZE)),
    "a unit after the last entry": of_index(1533, INDEX_UNIT.build({"magic": 1, "pos": 1, "size": 1, "index": 1533, "term": 0})),
    "no end mark": end_mark(bytes(8)),
    "noise in place of the end mark": end_mark(b"\x77" * 30),
    "noise after the last entry": tail,
}
"""Damages after which everything is as it was, because the rest proves it."""

OF_OTHERS: dict[str, Damage] = {
    "a body": of_entry(200, 48 + 100, b"\x55" * 20),
    "a record": of_entry(200, 48, b"\x55" * 8),
    "an entry": of_entry(200, 0, b"\x55" * 100),
    "some entries": of_entry(300, 30, b"\x55" * 3000),
    "the first entry": of_entry(0, 0, bytes(100)),
    "the last entries of a file": of_entry(-3, 10, b"\x55" * 860),
    "the first entries of the last file": of_entry(0, 0, b"\x55" * 2000, NEXT),
    "the last entry": of_entry(-1, 0, b"\x55" * 80, NEXT),
}
"""Damages that only another member can repair."""


def recovered(root: Path, *options: str | Path) -> Run:
    return rmqstore("recover", root, "--yes", "--json", *stores.case(NAME).set_options(root), "--broker-version", "5.3.3", *options)


def data_of(root: Path) -> dict[str, str]:
    """Every file but the checkpoint, which is written after each repair, and the copies for `undo`."""
    return {name: data for name, data in content(root).items() if name != "checkpoint" and not name.startswith(".rmqstore/")}


@pytest.fixture
def member(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    root = stores.fresh_store(NAME, tmp_path)
    return root, data_of(root)


def test_a_member_stays_as_it_is(member: tuple[Path, dict[str, str]]) -> None:
    root, before = member
    assert recovered(root).status == 0
    assert data_of(root) == before


@pytest.mark.limited(16)
@pytest.mark.sampled(6)
@pytest.mark.parametrize("damage", PROVEN)
def test_what_the_rest_proves_is_written_as_it_was(damage: str, member: tuple[Path, dict[str, str]]) -> None:
    root, before = member
    PROVEN[damage](root)
    assert data_of(root) != before
    done = recovered(root)
    assert data_of(root) == before
    assert done.status == 0
    # Bytes after the last entry may have been one.
    assert [lost for lost in done.objects[0]["lost"] if lost["doubt"] != "existence"] == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("damage", OF_OTHERS)
def test_another_member_gives_the_rest(damage: str, member: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    root, before = member
    other = tmp_path / "other"
    shutil.copytree(root, other)
    OF_OTHERS[damage](root)
    done = recovered(root, "--from", other)
    assert data_of(root) == before
    assert [Path(taken["file"]).name for taken in done.objects[0]["taken"]] in ([Path(DATA).name], [Path(NEXT).name])


def test_damage_that_nothing_proves_stays_and_is_named(member: tuple[Path, dict[str, str]]) -> None:
    root, _ = member
    start, size = entries(root)[200]
    OF_OTHERS["an entry"](root)
    damaged = data_of(root)
    done = recovered(root)
    assert done.status == 1
    assert {name for name, data in data_of(root).items() if damaged[name] != data and name.startswith(DIRECTORY)} == set()
    assert [(lost["physical_offset"], lost["size"]) for lost in done.objects[0]["lost"]] == [(start + 48, size - 48)]
    notes = " ".join(done.objects[0]["notes"])
    assert f"stays damaged, the first at offset {start}" in notes and f"stops reading at offset {start}" in notes
    assert done.objects[-1]["errors"].keys() == {"RMQ-CL-MAGIC"}


def test_a_damaged_body_changes_neither_queues_nor_index(member: tuple[Path, dict[str, str]]) -> None:
    """The record stays where it is, and brokers keep its entries."""
    root, _ = member
    OF_OTHERS["a body"](root)
    damaged = data_of(root)

    done = recovered(root)

    assert (done.status, len(done.objects[0]["lost"])) == (1, 1)
    assert data_of(root) == damaged
    assert done.objects[-1]["errors"].keys() == {"RMQ-CL-CRC"}


def test_the_last_message_of_a_queue_that_stays_damaged_is_planned_once(member: tuple[Path, dict[str, str]]) -> None:
    """Its entry repeats the message before, which is no fault afterwards: the damage is still in the log."""
    root, _ = member
    last: dict[tuple[str, int], tuple[str, int, int]] = {}
    for name in (DATA, NEXT):
        data = (root / name).read_bytes()
        for position, size in entries(root, name):
            record = decode_record(data[position + ENTRY_HEADER.sizeof() : position + size])
            if record.queue_offset:
                last[record.topic, record.queue_id] = (name, position, size)
    name, position, size = min(last.values())
    patch(root / name, position + 100, bytes(size - 100))

    run = recovered(root)

    assert run.objects[0]["lost"]
    transaction = next(one for one in run.objects if one["type"] == "transaction")
    assert transaction["second_plan_actions"] == 0
    assert {code for code in transaction["errors"] if code.startswith("RMQ-CQ")} == set()


def test_a_member_of_another_group_gives_nothing(member: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    """The entries beside the damage are others there."""
    root, _ = member
    other = tmp_path / "other"
    shutil.copytree(root, other)
    for number in (199, 201):
        of_entry(number, 48 + 100, b"\x33" * 4)(other)
    OF_OTHERS["an entry"](root)
    done = recovered(root, "--from", other)
    assert done.objects[0]["taken"] == []
    assert "stays damaged" in " ".join(done.objects[0]["notes"])


@pytest.mark.parametrize("source", ["itself", "a plain store"])
def test_what_is_no_other_member_is_refused(source: str, member: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    root, _ = member
    OF_OTHERS["an entry"](root)
    other = root if source == "itself" else stores.fresh_store("5.3.3-plain", tmp_path / "plain")
    assert recovered(root, "--from", other).status == REFUSED


@pytest.mark.parametrize("damage", ["short", "missing"])
def test_files_that_a_member_does_not_load_are_refused(damage: str, member: tuple[Path, dict[str, str]]) -> None:
    root, _ = member
    if damage == "short":
        (root / DATA).write_bytes((root / DATA).read_bytes()[:-100])
    else:
        (root / NEXT).rename(root / DIRECTORY / "data" / f"{3 << 20:020d}")
    done = recovered(root)
    assert (done.status, "another member" in done.err) == (REFUSED, True)


def truncated(root: Path, *options: str) -> Run:
    return rmqstore("truncate", root, "--yes", "--json", *stores.case(NAME).set_options(root), "--broker-version", "5.3.3", *options)


def test_a_log_is_cut_where_a_member_stops_reading(member: tuple[Path, dict[str, str]]) -> None:
    root, _ = member
    start, _ = entries(root)[200]
    behind = len(entries(root)) - 200 + len(entries(root, NEXT))
    OF_OTHERS["an entry"](root)
    damaged = data_of(root)
    done = truncated(root)
    assert done.status == 0
    assert len(done.objects[0]["lost"]) == behind
    assert f"{behind} messages leave this member" in " ".join(done.objects[0]["notes"])
    assert not any((root / DATA).read_bytes()[start:]) and not (root / NEXT).exists()
    assert not any((root / INDEX).read_bytes()[200 * INDEX_UNIT_SIZE : 1600 * INDEX_UNIT_SIZE])
    assert "committedIndex=199" in (root / DIRECTORY / "checkpoint").read_text()
    found = rmqstore("verify", root, "--json", *stores.case(NAME).set_options(root)).objects
    assert {one["code"] for one in found if one.get("severity") == "error"} == set()
    assert rmqstore("undo", root, "--yes", *stores.case(NAME).set_options(root)).status == 0
    assert data_of(root) == damaged


def test_a_log_is_cut_at_an_entry(member: tuple[Path, dict[str, str]]) -> None:
    root, _ = member
    start, _ = entries(root, NEXT)[3]
    assert truncated(root, "--at", str((1 << 20) + start + 1)).status == REFUSED
    assert truncated(root, "--at", str((1 << 20) + start)).status == 0
    assert len(entries(root, NEXT)) == 3


def test_a_damaged_body_before_the_cut_stays_with_its_entries(member: tuple[Path, dict[str, str]]) -> None:
    root, _ = member
    OF_OTHERS["a body"](root)
    start, _ = entries(root, NEXT)[3]
    done = truncated(root, "--at", str((1 << 20) + start))
    assert done.objects[-1]["errors"].keys() == {"RMQ-CL-CRC"}
    assert done.objects[-1]["second_plan_actions"] == 0


def test_a_log_that_ends_well_is_not_cut(member: tuple[Path, dict[str, str]]) -> None:
    root, before = member
    assert truncated(root).status == 0
    assert data_of(root) == before


def of_five_files(tmp_path: Path) -> Path:
    """A member with the first records of the sample in five small data files, and nothing else."""
    size = 16384
    source = stores.sample_store(NAME)
    data = (source / DATA).read_bytes()
    root = tmp_path / "small" / "store"
    files: list[bytes] = [b""]
    units = b""
    for number, (start, length) in enumerate(entries(source)):
        if len(files[-1]) + length + 8 > size:
            rest = size - len(files[-1])
            files[-1] += END_OF_FILE.build({"magic": -1, "size": rest}).ljust(rest, b"\0")
            files.append(b"")
        if len(files) > 5:
            break
        place = (len(files) - 1) * size + len(files[-1])
        entry = bytearray(data[start : start + length])
        entry[HEADER["pos"].offset : HEADER["pos"].end] = place.to_bytes(8, "big")
        entry[48 + 28 : 48 + 36] = (place + 48).to_bytes(8, "big")
        files[-1] += bytes(entry)
        units += INDEX_UNIT.build({"magic": 1, "pos": place, "size": length, "index": number, "term": 0})
    for number, content_of in enumerate(files[:5]):
        path = root / DIRECTORY / "data" / f"{number * size:020d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content_of.ljust(size, b"\0"))
    (root / INDEX).parent.mkdir()
    with (root / INDEX).open("wb") as index:
        index.write(units)
        index.truncate(DEFAULT_INDEX_FILE_SIZE)
    return root


def test_damage_before_the_last_three_files_is_not_where_a_log_is_cut(tmp_path: Path) -> None:
    root = of_five_files(tmp_path)
    words = [
        "--yes",
        "--json",
        "--broker-version",
        "5.3.3",
        "--set",
        "mappedFileSizeCommitLog=16384",
        "--set",
        "enableDLegerCommitLog=true",
    ]
    starts = entries(root)
    patch(root / DATA, starts[5][0], b"\x55" * 100)
    early = rmqstore("truncate", root, *words)
    assert early.status in (0, 1), early.err
    assert early.objects[0]["lost"] == []
    assert f"the first at offset {starts[5][0]}" in " ".join(early.objects[0]["notes"])
    third = root / DIRECTORY / "data" / f"{2 * 16384:020d}"
    patch(third, starts_of(third)[4], b"\x55" * 100)
    done = rmqstore("truncate", root, *words)
    assert done.objects[0]["lost"] and not any(third.read_bytes()[starts_of(third)[4] :])
    assert sorted(path.name for path in third.parent.iterdir()) == [f"{number * 16384:020d}" for number in range(3)]


def starts_of(path: Path) -> list[int]:
    """Where the entries of a data file begin, the fifth one as if its header were whole."""
    data, found, place = path.read_bytes(), [], 0
    while int.from_bytes(data[place : place + 4], "big") == 1:
        found.append(place)
        place += int.from_bytes(data[place + 4 : place + 8], "big")
    return [*found, place]
