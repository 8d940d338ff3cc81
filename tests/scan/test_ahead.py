"""A scan that runs ahead delivers what the scan delivers, ends with it, and fails with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rmqstore.formats.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET
from rmqstore.scan.ahead import DEPTH, ahead
from rmqstore.scan.columns import Check, Mark
from rmqstore.scan.walk import Batch, Damage, FileEnd, LogScanner
from rmqstore.store.root import Store
from tests.support.builder import StoreBuilder
from tests.support.stores import case, sample_store

NO_DELAYS = np.zeros(1, np.int64)


def scanned(root: Path, settings: dict[str, str], batch: int = 7) -> Iterator[Batch | Damage | FileEnd]:
    scanner = LogScanner(checks=Check.BODY_CRC | Check.KEYS, delays=NO_DELAYS, batch=batch)
    for file in Store.open(root, settings=settings).commitlog.files:
        yield from scanner.scan(file)


@pytest.mark.parametrize("name", ["5.3.3-plain", "4.9.8-lmq", "5.5.1-empty"])
def test_batches_are_those_of_the_scan(name: str) -> None:
    root, settings = sample_store(name), case(name).settings(sample_store(name))
    expected = [event for event in map(_bytes_of, scanned(root, settings)) if event is not None]
    assert [_bytes_of(batch) for batch in ahead(scanned(root, settings))] == expected


def test_records_keep_the_bytes_that_somebody_will_read(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store").message(body=b"plain")
    builder.message(properties={INNER_MULTI_DISPATCH: "%LMQ%a", INNER_MULTI_QUEUE_OFFSET: "0"}, body=b"light")
    builder.build()
    plain, light = ahead(scanned(builder.root, builder.settings, batch=1))
    assert plain.window.size == 0
    assert light.marks & Mark.MULTI_DISPATCH
    assert b"light" in light.record_bytes(0)


def test_what_the_scan_raises_is_raised() -> None:
    def broken() -> Iterator[Batch | Damage | FileEnd]:
        root = sample_store("5.3.3-plain")
        yield from scanned(root, case("5.3.3-plain").settings(root))
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        for _ in ahead(broken()):
            pass


def test_nobody_scans_on_when_the_reader_stops() -> None:
    root = sample_store("5.3.3-plain")
    before = threading.active_count()
    seen = 0

    def counted() -> Iterator[Batch | Damage | FileEnd]:
        nonlocal seen
        for event in scanned(root, case("5.3.3-plain").settings(root), batch=1):
            seen += 1
            yield event

    batches = ahead(counted())
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
    assert seen <= DEPTH + 2


def _bytes_of(event: Batch | Damage | FileEnd) -> tuple[bytes, bytes] | None:
    return (event.records.tobytes(), event.keys.tobytes()) if isinstance(event, Batch) else None
