"""The commit log in ranges, as doctor shows it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks.shapes import damage_bodies
from benchmarks.wide import WideShape, make_wide_store
from rmqstore.store.root import Store
from tests.doctor.diagnosing import FreshStore
from tests.support.cli import rmqstore
from tests.support.stores import case

CRASHED = "5.3.3-plain-crash"


def diagnosed(root: Path, *options: str) -> dict[str, Any]:
    return rmqstore("doctor", root, "--json", *options).objects[-1]


def states(found: dict[str, Any], *, damaged: bool = False) -> list[tuple[int, int, str]]:
    """The ranges, without the damaged ones or these alone."""
    return [(one["begin"], one["end"], one["state"]) for one in found["log_ranges"] if (one["state"] == "damaged") == damaged]


@pytest.mark.parametrize("base", ["5.3.3-plain", CRASHED, "4.9.8-manyfiles-crash", "broker-5.3.3-dledger-clean", "4.9.8-empty"])
def test_the_ranges_cover_the_files(base: str, fresh_store: FreshStore) -> None:
    root = fresh_store(base)
    files = Store.open(root, settings=case(base).settings(root)).message_log.files
    found = states(diagnosed(root, *case(base).set_options(root)))
    covered = {(begin, end) for begin, end, _ in found}
    assert sum(end - begin for begin, end in covered) == sum(file.length for file in files)
    assert [begin for begin, _, _ in found[1:]] == [end for _, end, _ in found[:-1]]
    assert all(one[2] != other[2] for one, other in pairwise(found))


def test_what_a_start_discards(fresh_store: FreshStore) -> None:
    root = fresh_store(CRASHED)
    (root / "checkpoint").unlink()
    path = root / "commitlog" / "00000000000000065536"
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[:4], "big")
    data[4] ^= 0xFF  # the magic code of the first record
    path.write_bytes(data)

    found = diagnosed(root, "--broker-version", "5.3.3", *case(CRASHED).set_options(root))

    assert found["lost"]["messages"] > 0
    valid, discarded, empty = states(found)
    assert valid == (0, 65536, "valid")
    assert discarded == (65536, case(CRASHED).max_phy_offset, "discarded")
    assert empty == (discarded[1], 393216, "empty")
    assert states(found, damaged=True) == [(65536, 65536 + size, "damaged")]


def test_a_missing_file_is_in_no_range(fresh_store: FreshStore) -> None:
    root = fresh_store("5.3.3-plain")
    (root / "commitlog" / "00000000000000065536").unlink()
    found = states(diagnosed(root, *case("5.3.3-plain").set_options(root)))
    assert found
    assert all(end <= 65536 or begin >= 131072 for begin, end, _ in found)


def test_many_damages_are_few_ranges(tmp_path: Path) -> None:
    store = make_wide_store(tmp_path / "store", WideShape(topics=125, messages=5))
    (store.root / "abort").touch()
    (store.root / "checkpoint").unlink()
    damage_bodies(store.root, 2500)
    found = diagnosed(store.root, *store.settings)
    assert 1 <= len(states(found, damaged=True)) <= 1000
    assert len(found["log_ranges"]) < 1010
