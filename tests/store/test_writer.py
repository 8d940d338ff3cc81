"""Which release wrote a store: signs are weighed, a damaged checkpoint has no vote, and other implementations are named."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.doctor.diagnosis import diagnose
from rmqstore.doctor.nextsteps import Commands
from rmqstore.prediction.release import choose_release
from rmqstore.scan.tail import tail_records
from rmqstore.store.kinds.writer import WriterGuess, release_key
from rmqstore.store.root import Store
from rmqstore.store.summary import summarize
from tests.support.cli import rmqstore
from tests.support.stores import case

FreshStore = Callable[[str], Path]


def admits(found: WriterGuess, release: str) -> bool:
    """Whether a release is in the range."""
    return release_key(found.lowest) <= release_key(release) <= release_key(found.highest)


def guess(root: Path, **settings: str) -> WriterGuess:
    return summarize(Store.open(root, settings=settings), tail_records).writer


def put_long(root: Path, position: int, value: int) -> None:
    with (root / "checkpoint").open("r+b") as file:
        file.seek(position)
        file.write(struct.pack(">q", value))


DAMAGES = {"far": {40: 0x5A5A5A5A5A5A5A5A}, "time": {40: 77, 0: -5}, "noise": {40: 77, 24: 77, 4000: 1}, "late": {40: 77, 8: 1 << 60}}


@pytest.mark.parametrize("base", ["4.9.8-plain", "5.1.4-plain", "5.2.0-plain", "5.3.3-plain", "5.4.0-plain"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_checkpoint_has_no_vote(base: str, damage: dict[int, int], fresh_store: FreshStore) -> None:
    root = fresh_store(base)
    for position, value in damage.items():
        put_long(root, position, value)
    found = guess(root)
    assert admits(found, case(base).release), found
    assert not [sign for sign in found.signs if sign.text.startswith("checkpoint")]


def test_a_noisy_checkpoint_has_no_vote(fresh_store: FreshStore) -> None:
    root = fresh_store("4.9.8-plain")
    (root / "checkpoint").write_bytes(b"\x5a" * 4096)
    assert guess(root).highest < "5"


def test_a_sign_that_stands_alone_is_shown_as_a_contradiction(fresh_store: FreshStore) -> None:
    """A directory of 5.5.0 in a store whose offsets were written by an older broker."""
    root = fresh_store("5.3.3-plain")
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable":{"TopicA@g":{0:1,1:2}}}')
    (root / "consumequeue_rocksdb").mkdir()
    found = guess(root)
    assert admits(found, "5.3.3") and not admits(found, "5.5.1")
    assert [sign.text for sign in found.contradicting] == ["consumequeue_rocksdb exists"]
    assert "consumequeue_rocksdb exists: contradicts the other signs" in rmqstore("info", root).out
    assert "contradicting: consumequeue_rocksdb exists" in choose_release(Store.open(root), "auto").because


RUST: list[tuple[str, Callable[[Path], object]]] = [
    ("lock holds pid=", lambda root: (root / "lock").write_bytes(b"pid=4711\n")),
    (".rocketmq-lifecycle", lambda root: (root / ".rocketmq-lifecycle").mkdir()),
    (".rocketmq-storage-identity.json", lambda root: (root / ".rocketmq-storage-identity.json").write_text("{}")),
]


def timeline(root: Path) -> None:
    (root / "timeline").mkdir()
    for name in ("FORMAT", "manifest.a", "manifest.b"):
        (root / "timeline" / name).write_bytes(b"1")


@pytest.mark.parametrize(("sign", "make"), [*RUST, ("a timeline with manifest.a", timeline)], ids=lambda one: str(one)[:20])
def test_rocketmq_rust_is_named(sign: str, make: Callable[[Path], object], fresh_store: FreshStore) -> None:
    root = fresh_store("5.3.3-plain")
    make(root)
    (root / "abort.bak").unlink()
    found = guess(root)
    assert found.implementation == f"rocketmq-rust 1.0 ({sign})"
    assert admits(found, "5.3.3")  # what brokers in Java always leave says nothing
    assert "rocketmq-rust 1.0" in rmqstore("info", root).out
    diagnosis = diagnose(Store.open(root, settings=case("5.3.3-plain").settings(root)), "auto", Commands(root))
    assert "rocketmq-rust 1.0" in diagnosis.because


def test_no_store_of_a_broker_is_one_of_rust() -> None:
    from tests.support.stores import cases, sample_store

    assert {guess(sample_store(one.name)).implementation for one in cases()} == {None}


def test_a_release_before_4_9(fresh_store: FreshStore) -> None:
    """Before 4.7.1 the header counts every item as a slot."""
    root = fresh_store("4.9.8-manyfiles-crash")
    settings = case("4.9.8-manyfiles-crash").settings(root)
    slots = int(settings["maxHashSlotNum"])
    path, count = next(
        (path, count)
        for path in sorted((root / "index").iterdir())
        if (count := struct.unpack(">i", path.read_bytes()[36:40])[0] - 1) > slots
    )
    with path.open("r+b") as file:
        file.seek(32)
        file.write(struct.pack(">i", count))
    found = guess(root, **settings)
    assert found.highest == "4.7.0"
    chosen = choose_release(Store.open(root, settings=settings), "auto")
    assert chosen.release == "4.7.0"
    assert "counts all items" in chosen.because
