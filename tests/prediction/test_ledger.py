"""What a member of a DLedger group drops is said. tests/broker/test_ledger.py compares the places with the real code for all damages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.repair.test_dledger import INDEX, NAME, OF_OTHERS, PROVEN
from tests.support import stores
from tests.support.cli import rmqstore


def predicted(root: Path) -> dict[str, object]:
    return rmqstore("recover", root, "--dry-run", "--json", "--broker-version", "5.3.3", *stores.case(NAME).set_options(root)).objects[0]


@pytest.mark.parametrize(
    ("damage", "place", "messages"),
    [("an entry", 139501, 1332), ("no end mark", 1048544, 1074)],
)
def test_where_a_member_stops_reading(damage: str, place: int, messages: int, tmp_path: Path) -> None:
    root = stores.fresh_store(NAME, tmp_path)
    {**PROVEN, **OF_OTHERS}[damage](root)
    found = predicted(root)
    said = f"; this member stops reading at offset {place} and drops {messages} messages after it"
    assert found["starts"] is None
    assert str(found["unknown"]).removesuffix(", which the leader sends again if a majority of the group has them") == (
        f"the commit log is that of a DLedger group{said}"
    )


def test_a_last_entry_that_a_member_drops_is_not_nothing(tmp_path: Path) -> None:
    root = stores.fresh_store(NAME, tmp_path)
    OF_OTHERS["the last entry"](root)
    found = predicted(root)
    assert found["starts"] is None
    assert "there are other bytes up to offset 1452341, which it drops" in str(found["unknown"])


def test_a_member_starts_without_its_index(tmp_path: Path) -> None:
    root = stores.fresh_store(NAME, tmp_path)
    PROVEN["the index is gone"](root)
    found = predicted(root)
    assert (found["starts"], found["unknown"]) == (True, None)


def test_a_member_that_does_not_start(tmp_path: Path) -> None:
    root = stores.fresh_store(NAME, tmp_path)
    (root / INDEX).write_bytes(bytes(100))
    found = predicted(root)
    assert found["starts"] is False
    assert found["blockers"][0]["code"] == "dledger"  # type: ignore[index]
    words = ["--broker-version", "5.3.3", *stores.case(NAME).set_options(root)]
    assert rmqstore("doctor", root, "--json", *words).objects[-1]["class"] == "DOES NOT START"
    assert rmqstore("recover", root, "--yes", *words).status == 0
    assert rmqstore("doctor", root, "--json", *words).objects[-1]["class"] == "STARTS, NOTHING LOST"
