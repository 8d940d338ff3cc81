"""`snapshot`: the copy verifies, starts, loses nothing before its horizon, and nothing is written into the store."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rmqstore.prediction.simulation import simulate
from rmqstore.repair.files.writer import Writer
from rmqstore.repair.snapshot.manifest import describe
from rmqstore.repair.snapshot.take import take_snapshot
from rmqstore.store.root import Store
from tests.support.cli import rmqstore
from tests.support.stores import case, cases, content, fresh_store, sample_store, snapshot
from tests.verify.appending import append, prepare
from tests.verify.one_check import patch

PLAIN = [one.name for one in cases() if "dledger" not in one.name]


def taken(root: Path, target: Path, *options: str, status: int = 0) -> dict[str, Any]:
    run = rmqstore("snapshot", root, target, "--format", "json", *options)
    assert run.status == status, run.out[-300:] + run.err
    (value,) = run.objects
    assert json.loads(target.with_name(target.name + ".manifest.json").read_text()) == value
    return value


@pytest.mark.limited(30)
@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", PLAIN)
def test_a_copy_of_a_stopped_store(name: str, tmp_path: Path) -> None:
    root, target = sample_store(name), tmp_path / "copy"
    before, attributes = content(root), snapshot(root)

    value = taken(root, target, "--broker-version", case(name).release, *case(name).set_options(root))

    assert (content(root), snapshot(root)) == (before, attributes)
    assert (value["complete"], value["errors"], value["in_use"]) == (True, {}, False)
    assert not (target / "abort").exists() and not (target / ".rmqstore").exists()
    assert {one["path"]: one["sha256"] for one in value["files"]} == content(target)
    assert rmqstore("diff", root, target, *case(name).set_options(root)).status == 0
    if not case(name).crashed and not case(name).is_broker and not (root / "lock").exists():
        assert content(target) == before


def test_times_and_holes_are_those_of_the_store(tmp_path: Path) -> None:
    root, target = fresh_store("5.3.3-plain", tmp_path), tmp_path / "copy"
    hole = root / "commitlog" / ("0" * 14 + "327680")
    with hole.open("wb") as stream:
        stream.truncate(65536)

    taken(root, target)

    first = min((root / "commitlog").iterdir())
    assert (target / "commitlog" / first.name).stat().st_mtime_ns == first.stat().st_mtime_ns
    last = sorted((target / "commitlog").iterdir())[-1]
    assert last.stat().st_size == 65536 and last.stat().st_blocks * 512 < 65536


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rate", [50, 2000, 20_000])
def test_copies_of_a_store_that_is_written_to(rate: int, tmp_path: Path) -> None:
    recorder = prepare(tmp_path / "store")
    context = multiprocessing.get_context("fork")
    goes, stops = context.Event(), context.Event()
    writer = context.Process(target=append, args=(recorder, rate, Random(rate).random(), goes, stops), kwargs={"cleans": rate == 2000})
    writer.start()
    sizes = [f"--set={name}={value}" for name, value in recorder.settings.items()]
    ends = []
    try:
        goes.wait(30)
        for number in range(4):
            target = tmp_path / f"copy-{number}"
            value = taken(recorder.root, target, *sizes)
            assert (value["complete"], value["errors"], value["notes"]) == (True, {}, [])
            ends.append(value["end"])
            run = rmqstore("verify", target, "--format", "json", "--allow-unchecked", *sizes)
            assert run.status == 0, run.out
            outcome = simulate(Store.open(target, settings=recorder.settings), "5.3.3")
            assert outcome.starts and outcome.lost is not None and not outcome.lost.messages
    finally:
        stops.set()
        writer.join()
    assert ends == sorted(ends) and ends[0] < ends[-1]
    log = {path.name: path.read_bytes() for path in (tmp_path / "store" / "commitlog").iterdir()}
    for number, end in enumerate(ends):
        for path in (tmp_path / f"copy-{number}" / "commitlog").iterdir():
            if path.name in log:
                used = min(65536, end - int(path.name))
                assert path.read_bytes() == log[path.name][:used].ljust(65536, b"\0")


class Cloning(Writer):
    """A writer on a file system that shares blocks between files."""

    def clone(self, descriptor: int, path: Path, source: int) -> bool:
        os.copy_file_range(source, descriptor, os.fstat(source).st_size, 0, 0)
        return True


def test_a_file_system_that_shares_blocks(tmp_path: Path) -> None:
    root = fresh_store("5.3.3-plain", tmp_path)
    last, end = sorted((root / "commitlog").iterdir())[-1], Store.open(root).commitlog.max_offset
    half_written = (300).to_bytes(4, "big") + b"\xda\xa3\x20\xa7" + bytes(20)
    used = last.read_bytes().rstrip(b"\0").__len__()
    assert int(last.name) + used + 400 < end
    patch(last, used + 8, half_written)

    copies = [
        take_snapshot(Store.open(root), tmp_path / name, writer=writer) for name, writer in (("shared", Cloning()), ("copied", Writer()))
    ]

    assert [(one.copier.cloned > 0, one.copier.copied > 0) for one in copies] == [(True, False), (False, True)]
    shared, copied = ({entry["path"]: entry["sha256"] for entry in describe(one)["files"]} for one in copies)
    assert shared == copied == content(tmp_path / "shared") == content(tmp_path / "copied")
    assert (tmp_path / "shared" / "commitlog" / last.name).read_bytes()[used:].strip(b"\0") == b""


def test_a_damaged_store_is_copied_as_it_is(tmp_path: Path) -> None:
    root, target = fresh_store("5.3.3-plain", tmp_path), tmp_path / "copy"
    patch(min((root / "commitlog").iterdir()), 5000, b"\xff" * 300)
    before = content(root)

    value = taken(root, target, status=1)

    assert not value["complete"] and value["errors"]
    assert content(target) == before == content(root)
    assert any("recover" in note for note in value["notes"])


def test_verify_compares_a_copy_with_its_manifest(tmp_path: Path) -> None:
    target = tmp_path / "copy"
    taken(sample_store("5.3.3-plain"), target)

    def found(*options: str) -> dict[str, str]:
        run = rmqstore("verify", target, "--format", "json", "--all", "--allow-unchecked", *options)
        return {one["file"]: one["message"] for one in run.objects if one.get("code") == "RMQ-ST-MANIFEST"}

    assert found() == {}
    patch(target / "checkpoint", 4000, b"\1")
    (target / "index" / min(path.name for path in (target / "index").iterdir())).unlink()
    assert sorted(message.partition(" ")[2] for message in found().values()) == [
        "has other bytes than in the manifest",
        "is in the manifest, and missing here",
    ]
    assert len(found("--quick")) == 1
    manifest = tmp_path / "copy.manifest.json"
    manifest.write_text(manifest.read_text().replace('"checkpoint"', '"../checkpoint"'))
    assert list(found()) == [str(manifest)]


def test_hard_links_are_named(tmp_path: Path) -> None:
    root, target = fresh_store("5.3.3-plain", tmp_path), tmp_path / "copy"

    value = taken(root, target, "--link")

    assert value["linked"] == 4 and any("changes both" in note for note in value["notes"])
    names = [one["path"] for one in value["files"] if (target / one["path"]).stat().st_nlink == 2]
    assert names == sorted(f"commitlog/{path.name}" for path in (root / "commitlog").iterdir())[:4]


def test_where_a_copy_can_be(tmp_path: Path) -> None:
    root = fresh_store("5.3.3-plain", tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for target in (tmp_path / "full", root / "copy", tmp_path, root):
        assert rmqstore("snapshot", root, target).status == 3
    assert rmqstore("snapshot", sample_store("broker-5.3.3-dledger-clean"), tmp_path / "new").status == 3
    assert not (tmp_path / "new").exists()
    value = taken(root, tmp_path / "new")
    data = (tmp_path / "new" / value["files"][0]["path"]).read_bytes()
    assert value["files"][0]["sha256"] == hashlib.sha256(data).hexdigest()


def since(root: Path, target: Path, earlier: Path, *options: str, status: int = 0) -> dict[str, Any]:
    return taken(root, target, "--since", str(earlier.with_name(f"{earlier.name}.manifest.json")), *options, status=status)


def test_only_what_is_new_is_copied(tmp_path: Path) -> None:
    root, first, second = fresh_store("5.3.3-plain", tmp_path), tmp_path / "first", tmp_path / "second"
    before = taken(root, first)
    assert before["shared"] == 0
    full = [one for one in before["files"] if one["source"] is not None]
    assert full and all(one["path"].startswith("commitlog/") for one in full)

    after = since(root, second, first)

    assert after["shared"] == len(full)
    assert after["copied_bytes"] < before["copied_bytes"] or before["cloned"]
    assert (after["complete"], after["errors"]) == (True, {})
    assert content(second) == content(first)
    assert {one["path"]: one["sha256"] for one in after["files"]} == content(second)
    assert rmqstore("verify", second).status == 0


def test_a_file_that_changed_since_is_copied(tmp_path: Path) -> None:
    """Also one whose length and time are those of the earlier copy."""
    root, first, second = fresh_store("5.3.3-plain", tmp_path), tmp_path / "first", tmp_path / "second"
    full = [one for one in taken(root, first)["files"] if one["source"] is not None]
    changed = root / full[1]["path"]
    time = changed.stat().st_mtime_ns
    data = bytearray(changed.read_bytes())
    data[-1] ^= 1  # in the filler at its end
    changed.write_bytes(data)
    os.utime(changed, ns=(time, time))

    after = since(root, second, first)

    assert after["shared"] == len(full) - 1
    assert (second / full[1]["path"]).read_bytes() == bytes(data)
    assert (first / full[1]["path"]).read_bytes() != bytes(data)


def test_files_of_the_earlier_copy_that_are_not_as_in_its_manifest(tmp_path: Path) -> None:
    root, first, second = fresh_store("5.3.3-plain", tmp_path), tmp_path / "first", tmp_path / "second"
    full = [one for one in taken(root, first)["files"] if one["source"] is not None]
    (first / full[0]["path"]).unlink()
    with (first / full[1]["path"]).open("r+b") as stream:
        stream.write(b"\0" * 64)

    after = since(root, second, first)

    assert after["shared"] == len(full) - 2
    assert {one["path"]: one["sha256"] for one in after["files"] if one["path"].startswith("commitlog/")} == {
        name: digest for name, digest in content(root).items() if name.startswith("commitlog/")
    }


def test_a_damaged_file_of_the_earlier_copy_is_found(tmp_path: Path) -> None:
    """The digest is that of the manifest, so a change that kept length and time shows."""
    root, first, second = fresh_store("5.3.3-plain", tmp_path), tmp_path / "first", tmp_path / "second"
    full = [one for one in taken(root, first)["files"] if one["source"] is not None]
    kept = first / full[0]["path"]
    time = kept.stat().st_mtime_ns
    with kept.open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"\x5a")
    os.utime(kept, ns=(time, time))

    since(root, second, first)

    run = rmqstore("verify", second, "--format", "json")
    assert [one["file"] for one in run.objects if one.get("code") == "RMQ-ST-MANIFEST"] == [full[0]["path"]]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"files": [1]}', '{"type": "snapshot", "files": 3}'])
def test_a_file_that_is_no_manifest(text: str, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    manifest = tmp_path / "old.manifest.json"
    manifest.write_text(text)
    run = rmqstore("snapshot", sample_store("5.3.3-plain"), tmp_path / "copy", "--since", manifest)
    assert (run.status, run.out) == (2, "")
    assert "is no manifest of a snapshot" in run.err
    assert not (tmp_path / "copy").exists()
