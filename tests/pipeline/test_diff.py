"""A comparison whose files are compared by a runner finds what one in this process finds; stores behind URIs are compared as copies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqstore.diff.comparison import compare
from rmqstore.diff.copies import Copy
from rmqstore.pipeline.diff import passes_of
from rmqstore.pipeline.job import Runner, StoreAt
from rmqstore.pipeline.local import LocalRunner
from rmqstore.pipeline.spark.runner import SparkRunner
from tests.support.cli import rmqstore
from tests.support.stores import case, fresh_store, sample_store
from tests.support.storeview import StoreView
from tests.verify.one_check import patch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BASE = "4.9.8-manyfiles-crash"


def compared(one: Path, other: Path, runner: Runner | None) -> dict[str, Any]:
    places = [StoreAt.of(path, settings=case(BASE).settings(path)) for path in (one, other)]
    copies = [Copy.of(path, at.open()) for path, at in zip((one, other), places, strict=True)]
    passes = passes_of(runner, places, *(copy.store for copy in copies)) if runner is not None else None
    return compare(*copies, deep=True, now=0, passes=passes).as_json()


def changed(tmp_path: Path) -> Iterator[Path]:
    """Copies with damaged records in three files, and with other messages from the middle on."""
    files = StoreView(sample_store(BASE), case(BASE).settings(sample_store(BASE))).log_files
    damaged = fresh_store(BASE, tmp_path / "damaged")
    for file in (files[0], files[len(files) // 2], files[-1]):
        for record in file.records[:2]:
            patch(damaged / "commitlog" / f"{file.start:020d}", record.offset - file.start + 8, b"\x5a\x5a")
    yield damaged
    diverged = fresh_store(BASE, tmp_path / "diverged")
    for file in files[len(files) // 2 :]:
        for record in file.records:
            patch(diverged / "commitlog" / f"{file.start:020d}", record.offset - file.start + 40, b"\x01\x02\x03\x04")
    yield diverged
    yield sample_store(BASE)


def test_a_runner_finds_the_same(tmp_path: Path, session: SparkSession) -> None:
    relations = []
    for other in changed(tmp_path):
        expected = compared(sample_store(BASE), other, None)
        relations.append(expected["relation"])
        assert compared(sample_store(BASE), other, LocalRunner(2)) == expected
        assert compared(sample_store(BASE), other, SparkRunner(session.sparkContext)) == expected
    assert relations == ["damaged", "diverged", "same"]


def test_the_command_on_spark(tmp_path: Path) -> None:
    damaged = next(changed(tmp_path))
    words = ("diff", sample_store(BASE), damaged, *case(BASE).set_options(damaged), "--deep", "--format", "json")
    here, there = rmqstore(*words, "--engine", "local"), rmqstore(*words, "--engine", "spark")
    assert (there.status, there.out) == (here.status, here.out)
    assert here.status == 1


def test_stores_behind_uris(tmp_path: Path) -> None:
    """What cannot be changed where it is gets no command that would change it."""
    root, damaged = sample_store(BASE), next(changed(tmp_path))
    settings = [word for word in case(BASE).set_options(root) if "{" not in word]
    here = rmqstore("diff", root, damaged, *settings, "--format", "json")
    there = rmqstore("diff", root.as_uri(), damaged.as_uri(), *settings, "--format", "json")
    assert (here.status, there.status) == (1, 1)
    [one], [other] = here.objects, there.objects
    same = [name for name in one if name not in ("first", "second", "verdict", "next", "not_compared")]
    assert {name: other[name] for name in same} == {name: one[name] for name in same}
    assert other["second"]["store"] == damaged.as_uri()
    assert "rmqstore recover" in one["next"] and other["next"] is None


def test_one_store_alone_is_a_usage_error() -> None:
    run = rmqstore("diff", sample_store(BASE))
    assert run.status == 2
    assert "OTHER" in run.err
