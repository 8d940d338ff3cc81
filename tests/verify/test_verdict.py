"""The last line of `verify`: errors, or how far the store is healthy; and the status, which says no more."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support import stores
from tests.support.builder import StoreBuilder
from tests.support.cli import Run, rmqstore
from tests.verify.small_stores import SIZE, filled, log_name, patch

COMPACTED = "broker-5.3.3-cqext-crash"
DLEDGER = "broker-5.3.3-dledger-clean"


def summary(run: Run) -> dict[str, Any]:
    last: dict[str, Any] = json.loads(run.out.splitlines()[-1])
    assert last["type"] == "summary"
    return last


def verified(root: Path, *words: str | Path) -> Run:
    return rmqstore("verify", root, *words)


def test_a_healthy_store(tmp_path: Path) -> None:
    root = filled(StoreBuilder(tmp_path / "store"), 3).build()

    assert verified(root).out.splitlines()[-1] == "HEALTHY"
    last = summary(verified(root, "--format", "json"))
    assert (last["verdict"], last["errors"], last["not_checked"]) == ("HEALTHY", 0, [])


@pytest.mark.parametrize(("damages", "words"), [(1, "1 error"), (2, "2 errors")])
def test_errors(tmp_path: Path, damages: int, words: str) -> None:
    root = filled(StoreBuilder(tmp_path / "store"), 6).build()
    for number in range(damages):
        patch(root / log_name(), 2 * number * SIZE + 88, b"\xff")

    run = verified(root)

    assert (run.status, run.out.splitlines()[-1]) == (1, f"DAMAGED: {words}")
    assert summary(verified(root, "--format", "json"))["errors"] == damages


def with_segments(name: str, tmp_path: Path) -> Path:
    """A store of a broker with segments of tiered storage, whose place is not known."""
    root = stores.fresh_store(name, tmp_path / name)
    (root / "config" / "tieredStoreMetadata.json").write_text('{"topicSerialNumber": 0}')
    return root


@pytest.mark.parametrize("name", [COMPACTED, DLEDGER])
def test_what_holds_data_and_was_not_read(name: str, tmp_path: Path) -> None:
    root = with_segments(name, tmp_path)
    verdict = "HEALTHY as far as looked: segments of tiered storage were not read in depth"

    strict, lax = verified(root, "--format", "json"), verified(root, "--format", "json", "--allow-unchecked")

    assert (strict.status, lax.status) == (1, 0)
    for run in (strict, lax):
        last = summary(run)
        assert [one["area"] for one in last["not_checked"]] == ["segments of tiered storage"]
        assert all(one["reason"] for one in last["not_checked"])
        assert (last["verdict"], last["errors"]) == (verdict, 0)
    assert verified(root).out.splitlines()[-1] == verdict


@pytest.mark.parametrize("name", [COMPACTED, DLEDGER])
def test_compacted_logs_are_read_in_depth(name: str) -> None:
    run = verified(stores.sample_store(name), "--format", "json")
    assert (run.status, summary(run)["verdict"]) == (0, "HEALTHY")


def test_random_bytes_in_compacted_logs_are_never_called_healthy(tmp_path: Path) -> None:
    root = stores.fresh_store(COMPACTED, tmp_path)
    for path in (root / "compaction" / "compactionLog").rglob("00000*"):
        patch(path, 0, os.urandom(4096))

    run = verified(root, "--format", "json")

    assert run.status == 1
    assert summary(run)["verdict"] != "HEALTHY"


def test_an_area_without_data_is_no_reservation() -> None:
    root = stores.sample_store("5.5.1-plain")  # with compaction/ and rocksdbstore/, both without an entry

    run = verified(root, "--format", "json")

    assert (run.status, summary(run)["verdict"]) == (0, "HEALTHY")


@pytest.mark.parametrize(
    ("words", "rest"),
    [
        (["--quick"], "bodies were not read"),
        (["--part", "index", "--part", "commitlog"], "only commitlog and index was requested"),
        (["--topic", "TopicA"], "of queues only those of TopicA"),
    ],
)
def test_what_was_left_out_on_demand(tmp_path: Path, words: list[str], rest: str) -> None:
    root = filled(StoreBuilder(tmp_path / "store"), 3).build()

    run = verified(root, "--format", "json", *words)

    assert (run.status, summary(run)["verdict"]) == (0, f"HEALTHY as far as looked: {rest}")


def test_a_part_that_was_not_wanted_is_no_reservation() -> None:
    run = verified(stores.sample_store(COMPACTED), "--format", "json", "--part", "commitlog")

    assert (run.status, summary(run)["not_checked"]) == (0, [])


def test_known_errors_do_not_make_a_store_healthy(tmp_path: Path) -> None:
    root = filled(StoreBuilder(tmp_path / "store"), 6).build()
    patch(root / log_name(), 88, b"\xff")
    baseline = tmp_path / "baseline.json"
    baseline.write_text(verified(root, "--format", "json").out)

    run = verified(root, "--format", "json", "--baseline", baseline)

    assert (run.status, summary(run)["verdict"]) == (0, "no new error, 1 finding known before")


def test_of_several_stores_everything_that_was_not_read_is_told(tmp_path: Path) -> None:
    sound = filled(StoreBuilder(tmp_path / "store"), 3).build()

    run = verified(sound, with_segments(DLEDGER, tmp_path), with_segments(COMPACTED, tmp_path), "--format", "json")

    last = summary(run)
    assert run.status == 1
    assert [one["area"] for one in last["not_checked"]] == ["segments of tiered storage"] * 2
    assert last["verdict"].startswith("HEALTHY as far as looked: ")
    assert len({one["store"] for one in last["not_checked"]}) == 2
