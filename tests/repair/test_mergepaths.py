"""Logs in several directories are brought into one, byte by byte with their times, and back by undo."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import stores
from tests.support.cli import Run, rmqstore
from tests.support.stores import content

BASES = ("4.9.8-multipath", "5.5.1-multipath")
OK, USAGE, REFUSED = 0, 2, 3


def merged(root: Path, base: str, into: Path, *options: str) -> Run:
    words = options or stores.case(base).set_options(root)
    return rmqstore("merge-paths", root, "--into", into, "--yes", "--json", "--broker-version", stores.case(base).release, *words)


def log_files(*directories: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes and times of the files of a log by name."""
    files = (path for directory in directories for path in directory.iterdir())
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def records(root: Path, options: list[str]) -> list[int]:
    return [
        row["physical_offset"]
        for row in rmqstore("dump", root, "--part", "commitlog", "--json", *options).objects
        if row.get("type") == "message"
    ]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("name", ["commitlog", "commitlog2"])
def test_all_files_are_in_one_directory(base: str, name: str, tmp_path: Path) -> None:
    root = stores.fresh_store(base, tmp_path)
    before, files = content(root), log_files(root / "commitlog", root / "commitlog2")
    found = records(root, stores.case(base).set_options(root))

    done = merged(root, base, root / name)

    assert done.status == OK, done.err
    assert log_files(root / name) == files
    assert [path for path in root.glob("commitlog*/*") if path.parent.name != name] == []
    one = [
        option if not option.startswith("storePathCommitLog") else f"storePathCommitLog={root / name}"
        for option in stores.case(base).set_options(root)
    ]
    assert records(root, one) == found != []
    assert [item["code"] for item in rmqstore("verify", root, "--json", *one).objects if item.get("severity") == "error"] == []
    assert f"storePathCommitLog={root / name}" in " ".join(done.objects[0]["notes"])
    assert merged(root, base, root / name).objects[0]["actions"] == []
    assert rmqstore("undo", root, "--yes", *stores.case(base).set_options(root)).status == OK
    assert {path: data for path, data in content(root).items() if not path.startswith(".rmqstore/")} == before


def test_a_log_moves_to_another_directory(tmp_path: Path) -> None:
    root, base = stores.fresh_store("5.3.3-manyfiles-crash", tmp_path), "5.3.3-manyfiles-crash"
    target = tmp_path / "disk" / "log"
    target.mkdir(parents=True)
    files = log_files(root / "commitlog")
    options = stores.case(base).set_options(root)

    refused = merged(root, base, target)
    done = merged(root, base, target, *options, "--set", f"storePathCommitLog={root / 'commitlog'},{target}")

    assert refused.status == USAGE and f"{root / 'commitlog'},{target}" in refused.err
    assert done.status == OK, done.err
    assert log_files(target) == files
    assert list((root / "commitlog").iterdir()) == []


def test_a_directory_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    root = stores.fresh_store(BASES[0], tmp_path)
    assert merged(root, BASES[0], tmp_path / "nowhere").status == USAGE


def test_files_of_the_same_name_are_refused(tmp_path: Path) -> None:
    root = stores.fresh_store(BASES[0], tmp_path)
    first = min((root / "commitlog").iterdir())
    (root / "commitlog2" / first.name).write_bytes(first.read_bytes())
    before = content(root)
    assert merged(root, BASES[0], root / "commitlog").status == REFUSED
    assert content(root) == before
