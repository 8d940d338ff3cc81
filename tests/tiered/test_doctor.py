"""The verdict on a start says what happens to tiered storage, and what of it is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import rmqstore
from tests.tiered.stores import NAMES, segment_paths, unpacked
from tests.tiered.test_repair import garbage, gone


def verdict(directory: Path, *words: str | Path) -> dict[str, Any]:
    run = rmqstore("doctor", directory / "store", "--format", "json", *(words or ("--broker-conf", directory / "broker.conf")))
    assert not run.crashed, run.err
    return dict(run.objects[-1])


def others(one: dict[str, Any]) -> list[tuple[str, str]]:
    return [(area["state"], area["reason"]) for area in one["areas"] if area["area"] == "other parts"]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_lost_where_nothing_is_damaged(name: str, tmp_path: Path) -> None:
    unpacked(name, tmp_path)
    assert [state for state, _ in others(verdict(tmp_path))] in ([], ["ok"])


@pytest.mark.parametrize(("inflict", "why"), [(gone, "missing"), (garbage, "nothing but 500 zero bytes")])
def test_without_metadata_segments_are_not_found(inflict: Any, why: str, tmp_path: Path) -> None:
    inflict(unpacked("5.3.3-crash", tmp_path))
    one = verdict(tmp_path)
    assert one["class"] == "STARTS, BUT"
    [(state, reason)] = others(one)
    assert (state, reason.split(",")[0]) == ("loses or repeats", "28 segment files of tiered storage are not found")
    assert why in reason


def test_a_segment_that_is_gone_is_lost(tmp_path: Path) -> None:
    unpacked("5.5.0-clean", tmp_path)
    segment_paths(tmp_path, "orders/0", "COMMIT_LOG")[0].unlink()
    assert others(verdict(tmp_path)) == [("loses or repeats", "1 segment of tiered storage is missing or too short")]


def test_segments_whose_place_is_unknown_are_not_checked(tmp_path: Path) -> None:
    unpacked("5.5.0-clean", tmp_path)
    one = verdict(tmp_path, "--broker-version", "5.5.0")
    assert one["class"] == "NOT SURE"
    assert "tieredStoreFilePath" in one["headline"]
