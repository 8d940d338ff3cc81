"""Stores that `recover` took out of the state of a crash: the next step is the start, and the verdict is no worse than before."""

from __future__ import annotations

import pytest

from rmqstore.store import fastjson
from tests.doctor.diagnosing import FreshStore
from tests.support.cli import rmqstore
from tests.support.stores import case


@pytest.mark.parametrize("base", ["broker-5.5.1-crash", "broker-4.9.7-lmq-crash", "broker-5.3.3-cqext-crash", "5.3.3-schedule-crash"])
def test_the_verdict_is_the_start(base: str, fresh_store: FreshStore) -> None:
    root = fresh_store(base)
    options = case(base).set_options(root)
    assert rmqstore("recover", root, *options, "--yes", "--quiet").status == 0
    verdict = rmqstore("doctor", root, *options, "--json").objects[-1]
    assert (verdict["class"], verdict["next"]) == ("STARTS, NOTHING LOST", "Start the broker.")


def test_delay_levels_continue_after_the_last_delivery(fresh_store: FreshStore) -> None:
    """The broker was killed while it replaced delayOffset.json; the .bak has 0 for levels 4 and 5, of which the log holds deliveries."""
    root = fresh_store("broker-5.5.1-crash")
    assert rmqstore("recover", root, *case("broker-5.5.1-crash").set_options(root), "--yes", "--quiet").status == 0
    offsets = fastjson.parse((root / "config" / "delayOffset.json").read_bytes()).value["offsetTable"]
    assert (offsets["1"], offsets["3"], offsets["4"], offsets["5"]) == (20, 21, 2, 10)
