"""`pending` lists the transactions that clients of a real broker left open, and what they popped and did not acknowledge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rmqstore.formats.naming import HALF_TOPIC, OP_HALF_TOPIC
from rmqstore.listing.pending import list_pending
from rmqstore.store.root import Store
from tests.support import stores
from tests.support.cli import rmqstore

BROKERS = ["broker-5.5.1-crash", "broker-5.3.3-cqext-crash"]


@pytest.mark.parametrize("name", BROKERS)
def test_transactions_that_clients_left_open(name: str) -> None:
    """Outcomes: U unknown for ever, C committed, R rolled back; D and X ended when the broker asked. One just before the crash is open."""
    outcomes = {one["msgId"]: one["outcome"] for one in stores.case(name).truth() if "outcome" in one}
    rows = [row for row in list_pending(Store.open(stores.sample_store(name))) if row.kind == "transaction"]
    found = {row.unique_key for row in rows}
    assert found <= outcomes.keys()
    assert len(found) == len(rows)
    assert {key for key, outcome in outcomes.items() if outcome == "U"} <= found
    assert not {key for key, outcome in outcomes.items() if outcome == "C"} & found
    early = sorted(row.time or 0 for row in rows if outcomes[str(row.unique_key)] == "R")
    assert all(time > max(row.time or 0 for row in rows) - 3000 for time in early)
    assert {(row.topic, row.group) for row in rows} == {("tx", "lab_tx_producer")}
    assert max(row.checks or 0 for row in rows) > 20


@pytest.mark.parametrize("name", BROKERS)
def test_messages_that_were_popped_and_not_acknowledged(name: str) -> None:
    rows = [row for row in list_pending(Store.open(stores.sample_store(name))) if row.kind == "pop"]
    assert {row.group for row in rows} == {"g_pop", "g_popnoack"}
    for row in rows:
        assert row.offsets
        assert (row.due or 0) > (row.time or 0)


def test_a_committed_message_ends_a_transaction_whose_op_message_is_lost(tmp_path: Path) -> None:
    root = stores.fresh_store("broker-5.5.1-crash", tmp_path)
    before = {row.unique_key for row in list_pending(Store.open(root))}
    for file in (root / "consumequeue" / OP_HALF_TOPIC / "0").iterdir():
        file.write_bytes(bytes(file.stat().st_size))
    outcomes = {one["msgId"]: one["outcome"] for one in stores.case("broker-5.5.1-crash").truth() if "outcome" in one}
    after = {row.unique_key for row in list_pending(Store.open(root)) if row.kind == "transaction"}
    assert before - {None} <= after
    assert not {key for key, outcome in outcomes.items() if outcome == "C"} & after


def test_rows_and_limits() -> None:
    root = stores.sample_store("broker-5.5.1-crash")
    done = rmqstore("pending", root, "--json")
    assert [row["time"] for row in done.objects] == sorted(row["time"] for row in done.objects)
    assert rmqstore("pending", root, "--limit", "2", "--json").objects == done.objects[:2]
    assert {row["topic"] for row in rmqstore("pending", root, "--topic", "tx", "--json").objects} == {"tx"}
    assert {row["topic"] for row in rmqstore("pending", stores.sample_store("broker-5.5.1-rocksdb-clean"), "--json").objects} >= {
        "tx",
        "pop",
    }
    assert rmqstore("pending", stores.sample_store("5.5.1-plain"), "--json").objects == []


def test_half_messages_that_the_log_lost(tmp_path: Path) -> None:
    root = stores.fresh_store("5.3.3-transactions", tmp_path)
    before = {row.physical_offset for row in list_pending(Store.open(root))}
    sent = {one["physicalOffset"] for one in stores.case("5.3.3-transactions").truth() if one["topic"] == HALF_TOPIC}
    assert before
    assert before <= sent
    file = min((root / "commitlog").iterdir())
    size = file.stat().st_size
    file.unlink()
    rows = list_pending(Store.open(root))
    assert {row.physical_offset for row in rows if row.problem} >= {offset for offset in before if offset < size}
    json.dumps([row.as_json() for row in rows])
