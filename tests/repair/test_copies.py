"""Recovery from other copies: what any copy has is back, byte for byte, and a copy of another log is refused."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.campaign.cases import KINDS
from tests.diff.test_diff import diverged, file_at, flip, older, records
from tests.support.builder import StoreBuilder
from tests.support.cli import Run, rmqstore
from tests.support.operations import apply
from tests.support.stores import case, content, fresh_store, sample_store, snapshot
from tests.support.storeview import StoreView
from tests.verify.one_check import patch

BASE = "5.3.3-plain"
OF_THE_LOG = [name for name in KINDS if name.startswith("log-")]
UNPROVABLE = {"log-clock-jump"}
"""Damages of a field that no checksum covers: both copies are valid there, and nothing shows which is right."""


def heal(root: Path, *copies: Path, options: Sequence[str] = (), status: int = 0) -> Run:
    words = [word for copy in copies for word in ("--from", str(copy))]
    run = rmqstore("recover", root, *words, "--broker-version", "5.3.3", "--yes", "--format", "json", *options)
    assert run.status == status, run.out + run.err
    return run


def plan_of(run: Run) -> dict[str, Any]:
    return next(value for value in run.objects if value["type"] == "plan")


def log_of(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((root / "commitlog").iterdir())}


def used(root: Path) -> dict[str, bytes]:
    """The log without empty files after its end."""
    return {name: data for name, data in log_of(root).items() if any(data)}


def damage(root: Path, kind: str, seed: int) -> None:
    apply(KINDS[kind](Random(seed), StoreView(root, case(BASE).settings(root))), root)


@pytest.mark.limited(16)
@pytest.mark.sampled(14)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", [kind for kind in OF_THE_LOG if kind not in UNPROVABLE])
def test_a_whole_copy_gives_everything_back(kind: str, seed: int, tmp_path: Path) -> None:
    root = fresh_store(BASE, tmp_path)
    damage(root, kind, seed)
    before = content(sample_store(BASE))

    plan = plan_of(heal(root, sample_store(BASE), options=["--extend"]))

    # What follows the end of the other copy is not proven to be nothing by it: the other copy may be older.
    end = max(record.offset + record.size for record in records(sample_store(BASE)))
    assert [one for one in plan["lost"] if one["physical_offset"] < end or one.get("topic") is not None] == []
    now, wanted = (b"".join(data for _, data in sorted(used(one).items()))[:end] for one in (root, sample_store(BASE)))
    assert now == wanted
    assert content(sample_store(BASE)) == before


def test_the_plan_names_the_source_of_every_byte_and_can_be_undone(tmp_path: Path) -> None:
    root = fresh_store(BASE, tmp_path)
    record = next(one for one in records(root) if one.position > 5000 and one.record.body)
    flip(root / record.path, record.fields["body"].offset)
    damaged, attributes = content(root), snapshot(root)

    run = heal(root, sample_store(BASE))

    source = sample_store(BASE) / record.path
    assert plan_of(run)["taken"] == [{"file": str(source), "begin": record.offset, "end": record.offset + record.size}]
    assert used(root) == used(sample_store(BASE))
    assert rmqstore("undo", root, "--yes").status == 0
    assert {path: value for path, value in content(root).items() if not path.startswith(".rmqstore")} == damaged
    now = snapshot(root)
    assert {path: now[path] for path in attributes if path != "."} == {path: one for path, one in attributes.items() if path != "."}


def test_properties_that_were_not_written_come_from_a_copy(tmp_path: Path) -> None:
    root = fresh_store(BASE, tmp_path)
    record = next(one for one in records(root) if one.position > 5000 and one.fields["properties"].width > 20)
    properties = record.fields["properties"]
    patch(root / record.path, properties.offset + 12, bytes(properties.width - 12))

    alone = rmqstore("recover", root, "--dry-run", "--strategy", "salvage", "--broker-version", "5.3.3", "--format", "json")
    run = heal(root, sample_store(BASE))

    assert plan_of(alone)["lost"] == []  # the message stays as it is
    assert not any(action["path"].startswith("commitlog") for action in plan_of(alone)["actions"])
    assert plan_of(run)["lost"] == []
    assert used(root) == used(sample_store(BASE))


def test_missing_files_come_from_a_single_file_or_another_store(tmp_path: Path) -> None:
    root = fresh_store(BASE, tmp_path)
    gone = sorted((root / "commitlog").iterdir())[2]
    gone.unlink()

    plan = plan_of(heal(root, sample_store(BASE)))

    assert plan["lost"] == []
    assert used(root) == used(sample_store(BASE))


def test_two_damaged_copies_give_the_whole(tmp_path: Path) -> None:
    one, other = fresh_store(BASE, tmp_path / "one"), fresh_store(BASE, tmp_path / "other")
    every = [record for record in records(one) if record.record.body]
    for number, record in enumerate(every):
        if number % 17 in (3, 11):
            patch((one if number % 17 == 3 else other) / record.path, record.position + 4, b"\xff" * 40)
    sorted((one / "commitlog").iterdir())[1].unlink()

    plan = plan_of(heal(one, other))

    lost = {record["physical_offset"] for record in plan["lost"]}
    both = {record.offset for number, record in enumerate(every) if number % 17 == 11 and 65536 <= record.offset < 131072}
    assert lost == both
    whole = log_of(sample_store(BASE))
    assert {name: data for name, data in used(one).items() if int(name) != 65536} == {
        name: data for name, data in used(sample_store(BASE)).items() if int(name) != 65536
    }
    heal(other, one)
    assert {name: data for name, data in used(other).items() if int(name) != 65536} == {
        name: whole[name] for name in used(other) if int(name) != 65536
    }


def test_the_first_copy_that_has_it(tmp_path: Path) -> None:
    root, second = fresh_store(BASE, tmp_path / "root"), fresh_store(BASE, tmp_path / "second")
    every = [record for record in records(root) if record.record.body]
    for record in every[40:44]:
        patch(root / record.path, record.position + 4, bytes(30))
    patch(second / every[42].path, every[42].position + 4, bytes(30))

    plan = plan_of(heal(root, second, sample_store(BASE)))

    assert used(root) == used(sample_store(BASE))
    assert [(one["begin"], Path(one["file"]).is_relative_to(second)) for one in plan["taken"]] == [
        (every[40].offset, True),
        (every[42].offset, False),
        (every[43].offset, True),
    ]


def test_an_older_copy_helps_as_far_as_it_goes(tmp_path: Path) -> None:
    every = records(sample_store(BASE))
    short = older(tmp_path, every[200].offset)
    root = fresh_store(BASE, tmp_path)
    for record in (every[150], every[300]):
        flip(root / record.path, record.fields["body"].offset)

    plan = plan_of(heal(root, short))

    assert [one["physical_offset"] for one in plan["lost"]] == [every[300].offset]
    assert [one["begin"] for one in plan["taken"]] == [every[150].offset]


def test_what_only_the_other_has_is_offered(tmp_path: Path) -> None:
    every = records(sample_store(BASE))
    root = older(tmp_path, every[400].offset)

    run = heal(root, sample_store(BASE))
    assert any(f"has {len(every) - 400} record" in note and "--extend" in note for note in plan_of(run)["notes"])
    assert plan_of(run)["taken"] == []
    run = heal(root, sample_store(BASE), options=["--extend"])
    assert used(root) == used(sample_store(BASE))
    assert rmqstore("verify", root, "--quiet", "--allow-unchecked").status in (0, 1)
    assert rmqstore("diff", root, sample_store(BASE)).status == 0


@pytest.mark.parametrize("other", ["5.3.2-plain", "4.9.8-plain"])
def test_a_copy_of_another_store_is_refused(other: str, tmp_path: Path) -> None:
    root = fresh_store(BASE, tmp_path)
    before = content(root)
    for damaged in (False, True):
        if damaged:
            damage(root, "log-page-zeroed", 1)
            before = content(root)
        run = rmqstore("recover", root, "--from", sample_store(other), "--yes")
        assert run.status == 3, run.out + run.err
        assert "is not proven to be a copy of this store: the first difference is at offset 0" in run.err
        assert {path: value for path, value in content(root).items() if not path.startswith(".rmqstore")} == before


def test_a_diverged_slave_is_used_up_to_the_divergence(tmp_path: Path) -> None:
    master, slave, begin = diverged(tmp_path, 100, *(50,) * 100)
    good = log_of(master)
    every = [record for file in StoreView(master, {"mappedFileSizeCommitLog": "16384"}).log_files for record in file.records]
    before, after = every[50], next(one for one in every if one.offset > begin + 2000)
    for record in (before, after):
        patch(file_at(master, record.offset), record.position + 4, bytes(20))

    run = rmqstore("recover", master, "--from", slave, "--extend", "--yes", "--format", "json", "--set", "mappedFileSizeCommitLog=16384")

    assert run.status == 0, run.out + run.err
    plan = plan_of(run)
    assert any(f"diverges from this log at offset {begin}" in note for note in plan["notes"])
    assert [one["physical_offset"] for one in plan["lost"]] == [after.offset]
    assert [one["begin"] for one in plan["taken"]] == [before.offset]
    now = log_of(master)
    assert all(now[name] == good[name] for name in good if int(name) + 16384 <= after.offset)


def test_no_record_in_common(tmp_path: Path) -> None:
    root = fresh_store(BASE, tmp_path)
    later = StoreBuilder(tmp_path / "later", first_offset=1 << 30).message().build()
    assert "no valid record in common" in rmqstore("recover", root, "--from", later, "--yes").err
    assert rmqstore("recover", root, "--from", root, "--yes").status == 3
    assert rmqstore("recover", root, "--from", tmp_path / "none", "--yes").status == 4
    assert rmqstore("recover", root, "--extend", "--yes").status == 2
    assert rmqstore("recover", root, "--from", sample_store(BASE) / "checkpoint", "--yes").status == 2


def test_links_and_pipes_in_a_copy_are_not_read(tmp_path: Path) -> None:
    root, other = fresh_store(BASE, tmp_path / "root"), fresh_store(BASE, tmp_path / "other")
    paths = sorted((other / "commitlog").iterdir())
    kept = tmp_path / "kept"
    paths[1].rename(kept)
    paths[1].symlink_to(kept)
    paths[2].unlink()
    os.mkfifo(paths[2])
    gone = sorted((root / "commitlog").iterdir())[1:3]
    for path in gone:
        path.unlink()

    plan = plan_of(heal(root, other))

    assert plan["taken"] == [] and len(plan["lost"]) > 100


def packed(root: Path, target: Path, mode: str, names: Sequence[str] = (".",)) -> Path:
    """Pack parts of a store into a tar archive."""
    with tarfile.open(target, mode) as archive:
        for name in names:
            archive.add(root / name, arcname=f"backup/store/{name}")
    return target


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_an_archive_as_the_copy(mode: str, tmp_path: Path) -> None:
    root = fresh_store(BASE, tmp_path)
    record = next(one for one in records(root) if one.position > 5000 and one.record.body)
    flip(root / record.path, record.fields["body"].offset)
    archive = packed(sample_store(BASE), tmp_path / "backup.tar", mode)

    plan = plan_of(heal(root, archive))

    assert [(one["begin"], one["end"]) for one in plan["taken"]] == [(record.offset, record.offset + record.size)]
    assert plan["taken"][0]["file"] == f"{archive}/{record.path}"
    assert plan["lost"] == []
    assert used(root) == used(sample_store(BASE))


def test_an_archive_of_a_single_log_file(tmp_path: Path) -> None:
    root = fresh_store(BASE, tmp_path)
    record = next(one for one in records(root) if one.position > 5000 and one.record.body)
    flip(root / record.path, record.fields["body"].offset)
    archive = packed(sample_store(BASE), tmp_path / "one.tar.gz", "w:gz", [record.path])
    assert plan_of(heal(root, archive))["lost"] == []
    assert used(root) == used(sample_store(BASE))


def test_a_uri_as_the_copy(tmp_path: Path) -> None:
    root = fresh_store(BASE, tmp_path)
    record = next(one for one in records(root) if one.position > 5000 and one.record.body)
    flip(root / record.path, record.fields["body"].offset)
    words = ["--from", f"file://{sample_store(BASE)}", "--broker-version", "5.3.3", "--yes", "--format", "json"]
    run = rmqstore("recover", root, *words)
    assert run.status == 0, run.err
    assert plan_of(run)["taken"][0]["file"] == f"file://{sample_store(BASE)}/{record.path}"
    assert used(root) == used(sample_store(BASE))


def test_archives_that_are_no_copy(tmp_path: Path) -> None:
    root = fresh_store(BASE, tmp_path)
    before = content(root)
    whole = packed(sample_store(BASE), tmp_path / "whole.tar.gz", "w:gz").read_bytes()
    (tmp_path / "cut.tar.gz").write_bytes(whole[: len(whole) // 2])
    packed(sample_store(BASE), tmp_path / "queues.tar", "w", ["consumequeue"])
    with tarfile.open(tmp_path / "twice.tar", "w") as archive:
        for parent in ("a", "b"):
            archive.add(sorted((sample_store(BASE) / "commitlog").iterdir())[0], arcname=f"{parent}/00000000000000000000")
    with tarfile.open(tmp_path / "outside.tar", "w") as archive:
        archive.add(sorted((sample_store(BASE) / "commitlog").iterdir())[0], arcname="../../00000000000000000000")
        link = tarfile.TarInfo("commitlog/00000000000000065536")
        link.type, link.linkname = tarfile.SYMTYPE, str(root / "commitlog" / "00000000000000065536")
        archive.addfile(link)
    for name, words, status in (
        ("cut.tar.gz", "is damaged", 4),
        ("queues.tar", "has no file of a commit log", 3),
        ("twice.tar", "has two files named 00000000000000000000", 3),
        ("outside.tar", "", 0),
    ):
        run = rmqstore("recover", root, "--from", tmp_path / name, "--broker-version", "5.3.3", "--dry-run", "--format", "json")
        assert run.status == status, (name, run.out + run.err)
        assert words in run.err + run.out
    assert content(root) == before
    assert not list(Path(tempfile.gettempdir()).glob("rmqstore-copy-*"))
