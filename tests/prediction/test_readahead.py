"""Reading ahead changes nothing but the time it takes."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from rmqstore.prediction.log import reader
from rmqstore.prediction.log.readahead import one_ahead
from rmqstore.prediction.simulation import WhatIf, simulate
from rmqstore.store.root import Store
from tests.support import stores

STORES = (
    "4.9.8-lmq",
    "5.1.4-batchcq",
    "5.3.3-cqext",
    "5.3.3-headless-crash",
    "5.3.3-manyfiles-crash",
    "5.3.3-plain",
    "5.3.3-transactions",
    "5.5.1-longtopic",
    "5.5.1-propcrc",
)


def numbers(made: list[int], end: int) -> Generator[int, None, None]:
    for number in range(end):
        made.append(number)
        yield number
    raise ZeroDivisionError


def test_items_come_in_order_and_what_making_them_raises_comes_last() -> None:
    made: list[int] = []
    ahead = one_ahead(numbers(made, 3))
    assert [next(ahead), next(ahead), next(ahead)] == [0, 1, 2]
    with pytest.raises(ZeroDivisionError):
        next(ahead)


def test_no_more_than_one_item_is_made_ahead() -> None:
    made: list[int] = []
    ahead = one_ahead(numbers(made, 100))
    for number in range(5):
        assert next(ahead) == number
        assert len(made) <= number + 2
    ahead.close()
    assert len(made) <= 6


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("release", ["4.9.8", "5.3.3", "5.5.1"])
def test_the_start_comes_out_the_same(monkeypatch: pytest.MonkeyPatch, name: str, release: str) -> None:
    store = Store.open(stores.sample_store(name), settings=stores.case(name).settings(stores.sample_store(name)))
    abnormal = WhatIf(abort=True, checkpoint_removed=True)
    expected = simulate(store, release, abnormal)
    monkeypatch.setattr(reader, "_WINDOW", 4096)
    monkeypatch.setattr(reader, "_BATCH", 7)
    ahead = []
    monkeypatch.setattr(reader, "one_ahead", lambda batches: ahead.append(batches) or one_ahead(batches))
    assert simulate(store, release, abnormal) == expected
    assert ahead
