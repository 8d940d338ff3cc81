"""What DLedger keeps besides the records: every changed header and index unit is found at its place, and nothing in a store as it was."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rmqstore.findings import Finding, Severity
from rmqstore.formats.dledger import ENTRY_HEADER, ENTRY_HEADER_SIZE, INDEX_UNIT, INDEX_UNIT_SIZE
from rmqstore.formats.layout import fixed_layout
from rmqstore.store.root import Store
from rmqstore.verify.context import Options
from rmqstore.verify.engine import Verification
from tests.support import stores
from tests.verify.one_check import patch

NAME = "broker-5.3.3-dledger-clean"
DIRECTORY = "dledger-n0"
DATA, INDEX = f"{DIRECTORY}/data/{0:020d}", f"{DIRECTORY}/index/{0:020d}"
HEADER = fixed_layout(ENTRY_HEADER)
UNIT = fixed_layout(INDEX_UNIT)


def _found(root: Path) -> list[Finding]:
    store = Store.open(root)
    verification = Verification(store, Options(parts=frozenset({"commitlog"})))
    return [one for one in verification.run() if one.severity is not Severity.INFO]


def _entries(root: Path) -> list[int]:
    """Return where the entries of the first data file begin."""
    data = (root / DATA).read_bytes()
    starts, position = [], 0
    while int.from_bytes(data[position : position + 4], "big") == 1:
        starts.append(position)
        position += int.from_bytes(data[position + 4 : position + 8], "big")
    return starts


def _flip(path: Path, position: int, bit: int) -> None:
    patch(path, position, bytes([path.read_bytes()[position] ^ 1 << bit]))


def test_a_member_has_no_finding(tmp_path: Path) -> None:
    assert _found(stores.sample_store(NAME)) == []


@pytest.mark.parametrize(
    ("field", "number"),
    # The term of the last entry of a file may be a new one: the first entry of the next file shows that it is not.
    [(field, number) for field in ("index", "term", "pos", "channel") for number in (0, 1, 10, -1) if (field, number) != ("term", -1)],
)
def test_a_field_of_a_header(field: str, number: int, tmp_path: Path) -> None:
    root = stores.fresh_store(NAME, tmp_path)
    start = _entries(root)[number]
    _flip(root / DATA, start + HEADER[field].end - 1, 1)

    found = _found(root)

    assert [(one.code, one.offset, one.file, one.position) for one in found if one.code == "RMQ-DL-ENTRY"] == [
        ("RMQ-DL-ENTRY", start, DATA, start)
    ]
    assert {one.code for one in found} == {"RMQ-DL-ENTRY"}
    assert found[0].message.startswith(field)


@pytest.mark.parametrize("field", ["magic", "size", "body_len"])
@pytest.mark.parametrize("number", [0, 10, -1])
def test_a_field_without_which_an_entry_is_not_read(field: str, number: int, tmp_path: Path) -> None:
    root = stores.fresh_store(NAME, tmp_path)
    start = _entries(root)[number]
    _flip(root / DATA, start + HEADER[field].end - 1, 1)

    (found,) = [one for one in _found(root) if one.code.startswith(("RMQ-DL", "RMQ-CL"))]

    assert (found.code, found.offset, found.position, found.length) == ("RMQ-DL-ENTRY", start, start, ENTRY_HEADER_SIZE)
    assert found.message.startswith(f"{field} of the entry header")


@pytest.mark.parametrize("field", ["magic", "pos", "size", "index", "term"])
def test_a_field_of_the_index(field: str, tmp_path: Path) -> None:
    root = stores.fresh_store(NAME, tmp_path)
    _flip(root / INDEX, 7 * INDEX_UNIT_SIZE + UNIT[field].end - 1, 2)

    (found,) = _found(root)

    assert (found.code, found.file, found.position, found.length) == ("RMQ-DL-INDEX", INDEX, 7 * INDEX_UNIT_SIZE, INDEX_UNIT_SIZE)
    assert field in found.message


def test_the_term_of_the_last_entry_of_a_file(tmp_path: Path) -> None:
    root = stores.fresh_store(NAME, tmp_path)
    _flip(root / DATA, _entries(root)[-1] + HEADER["term"].end - 1, 1)

    assert {(one.code, one.offset) for one in _found(root)} == {("RMQ-DL-ENTRY", 1 << 20), ("RMQ-DL-INDEX", None)}


def test_units_that_were_never_written_are_one_finding(tmp_path: Path) -> None:
    root = stores.fresh_store(NAME, tmp_path)
    patch(root / INDEX, 20 * INDEX_UNIT_SIZE, bytes(30 * INDEX_UNIT_SIZE))

    (found,) = _found(root)

    assert (found.code, found.position, found.length) == ("RMQ-DL-INDEX", 20 * INDEX_UNIT_SIZE, 30 * INDEX_UNIT_SIZE)
    assert "never written" in found.message


def test_an_index_that_is_gone(tmp_path: Path) -> None:
    root = stores.fresh_store(NAME, tmp_path)
    (root / INDEX).unlink()

    assert {one.code for one in _found(root)} == {"RMQ-DL-INDEX"}


def test_a_unit_after_the_last_entry(tmp_path: Path) -> None:
    root = stores.fresh_store(NAME, tmp_path)
    units = (root / INDEX).read_bytes()[: 4096 * INDEX_UNIT_SIZE].rstrip(b"\0")
    number = -(-len(units) // INDEX_UNIT_SIZE)
    patch(root / INDEX, number * INDEX_UNIT_SIZE, INDEX_UNIT.build({"magic": 1, "pos": 1, "size": 1, "index": number, "term": 0}))

    (found,) = _found(root)

    assert (found.code, found.position) == ("RMQ-DL-INDEX", number * INDEX_UNIT_SIZE)


def test_a_term_that_goes_back(tmp_path: Path) -> None:
    """Three entries of a later term, and then the first term again."""
    root = stores.fresh_store(NAME, tmp_path)
    starts = _entries(root)
    place = HEADER["term"]
    for number in (10, 11, 12):
        patch(root / DATA, starts[number] + place.offset, (5).to_bytes(8, "big"))
        patch(root / INDEX, number * INDEX_UNIT_SIZE + UNIT["term"].offset, (5).to_bytes(8, "big"))

    (found,) = _found(root)

    assert (found.code, found.offset, found.expected, found.found) == ("RMQ-DL-ENTRY", starts[13], 5, 0)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("currterm", "voteLeader=n0\ncurrTerm=-1\n", "currTerm is -1"),
        ("checkpoint", "committedIndex=99999\nendIndex=99999\n", "committedIndex is 99999"),
        ("checkpoint", "?" * 30, "checkpoint has no number"),
    ],
)
def test_term_and_checkpoint(name: str, text: str, message: str, tmp_path: Path) -> None:
    root = stores.fresh_store(NAME, tmp_path)
    (root / DIRECTORY / name).write_text(text)

    (found,) = _found(root)

    assert (found.code, found.severity, found.file) == ("RMQ-DL-STATE", Severity.WARNING, f"{DIRECTORY}/{name}")
    assert found.message.startswith(message)


@pytest.mark.parametrize("seed", range(12))
def test_any_bit_of_headers_and_units_is_found(seed: int, tmp_path: Path) -> None:
    root = stores.fresh_store(NAME, tmp_path)
    random_number = random.Random(seed)
    starts = _entries(root)
    number = random_number.randrange(len(starts))
    if seed % 2:
        place = random_number.choice([one for name, one in HEADER.items() if name not in ("chain_crc", "body_crc")])
        _flip(root / DATA, starts[number] + random_number.randrange(place.offset, place.end), random_number.randrange(8))
    else:
        _flip(root / INDEX, number * INDEX_UNIT_SIZE + random_number.randrange(INDEX_UNIT_SIZE), random_number.randrange(8))

    found = _found(root)

    assert any(one.severity is Severity.ERROR for one in found)
    if seed % 2:
        assert min(one.offset for one in found if one.offset is not None) in range(starts[number], starts[number] + ENTRY_HEADER_SIZE + 1)
