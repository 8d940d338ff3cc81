"""Whatever is put in the place of a store: an error or a finding, the right exit status, no traceback, no hang."""

from __future__ import annotations

import faulthandler
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmqstore.formats import record
from tests.support import stores
from tests.support.builder import StoreBuilder
from tests.support.cli import Run, needs_permissions, rmqstore, without_privileges
from tests.support.storeview import StoreView

LIMIT_SECONDS = 600
OK, FINDINGS, UNREADABLE = 0, 1, 4
COMMANDS = ["info", "verify", "dump", "recover"]
OPTIONS = {"recover": ["--dry-run"]}


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """A run that never ends kills the process, even from within compiled code."""
    faulthandler.dump_traceback_later(LIMIT_SECONDS, exit=True, file=2)
    yield
    faulthandler.cancel_dump_traceback_later()


def run(command: str, path: Path, *options: str) -> Run:
    outcome = rmqstore(command, path, "--format", "json", *OPTIONS.get(command, []), *options)
    assert not outcome.crashed, f"rmqstore {command} {path}: {outcome.err}"
    assert outcome.status in (OK, FINDINGS, UNREADABLE), outcome.err
    assert outcome.status != UNREADABLE or outcome.err.startswith("error: ")
    return outcome


def errors(outcome: Run) -> list[str]:
    return [one["code"] for one in outcome.objects if one.get("severity") == "error"]


# ---- no store at all


def nothing(path: Path) -> None:
    """The path does not exist."""


def empty_directory(path: Path) -> None:
    path.mkdir()


def other_directory(path: Path) -> None:
    (path / "src").mkdir(parents=True)
    (path / "readme.txt").write_text("no store")
    (path / "src" / "main.c").write_text("int main;")


def empty_file(path: Path) -> None:
    path.touch()


def text_file(path: Path) -> None:
    path.write_text("just some text\n" * 100)


def dangling_link(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def device(path: Path) -> None:
    os.mkfifo(path)


NO_STORES: list[Callable[[Path], None]] = [nothing, empty_directory, other_directory, empty_file, text_file, dangling_link, device]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("make", NO_STORES, ids=lambda make: make.__name__)
def test_what_is_no_store_is_refused(make: Callable[[Path], None], command: str, tmp_path: Path) -> None:
    make(tmp_path / "thing")

    outcome = run(command, tmp_path / "thing")

    assert outcome.status == UNREADABLE
    assert "hint: " in outcome.err
    assert outcome.out == ""


# ---- one file of a store replaced

FILES = {
    "5.3.3-cqext": ["commitlog/*", "consumequeue/*/*/*", "consumequeue_ext/*/*/*", "index/*", "checkpoint", "abort.bak", "lock"],
    "5.3.3-batchcq-crash": ["batchconsumequeue/*/*/*", "abort"],
    "broker-5.5.1-crash": [
        "timerwheel",
        "timerlog/*",
        "config/timercheck",
        "config/topics.json",
        "config/*.json",
        "config/timermetrics",
        "compaction/compactionLog/*/*/*",
        "compaction/compactionCq/*/*/*",
        "compaction/position-checkpoint",
    ],
    "broker-5.3.3-dledger-clean": ["dledger-n0/data/*", "dledger-n0/index/*"],
}
TARGETS = [(name, pattern) for name, patterns in FILES.items() for pattern in patterns]


def noise(path: Path) -> None:
    length = path.stat().st_size
    path.write_bytes(random.Random(length).randbytes(min(length, 1 << 20) or 100))


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_last_byte(path: Path) -> None:
    os.truncate(path, max(0, path.stat().st_size - 1))


def cut_to_three_bytes(path: Path) -> None:
    os.truncate(path, min(3, path.stat().st_size))


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def ones(path: Path) -> None:
    path.write_bytes(b"\xff" * min(path.stat().st_size, 1 << 20))


def largest_integers(path: Path) -> None:
    """Every integer is 2³¹ − 1: lengths, counts and links lead far out of the file."""
    path.write_bytes(b"\x7f\xff\xff\xff" * (min(path.stat().st_size, 1 << 20) // 4))


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def named_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link_to_its_directory(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent, target_is_directory=True)


def one_tebibyte_of_hole(path: Path) -> None:
    os.truncate(path, 1 << 40)


def one_tebibyte_and_a_byte(path: Path) -> None:
    with path.open("r+b") as stream:
        stream.seek(1 << 40)
        stream.write(b"\x01")


CHANGES: list[Callable[[Path], None]] = [
    noise,
    cut_in_half,
    cut_last_byte,
    cut_to_three_bytes,
    emptied,
    ones,
    largest_integers,
    directory,
    link_to_itself,
    link_to_its_directory,
    named_pipe,
    one_tebibyte_of_hole,
    one_tebibyte_and_a_byte,
]


@pytest.mark.limited(60)
@pytest.mark.sampled(6)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize(("name", "pattern"), TARGETS)
def test_a_replaced_file_is_survived(name: str, pattern: str, change: Callable[[Path], None], tmp_path: Path) -> None:
    root = stores.fresh_store(name, tmp_path)
    target = max(root.glob(pattern))
    change(target)

    settings = stores.case(name).set_options(root)
    run("verify", root, *settings)
    run("info", root)
    run("dump", target, *settings)
    if not stores.case(name).is_broker:  # the logs of whole brokers take their time and are the same in all these cases
        run("verify", root)
        run("dump", root, *settings)


@pytest.mark.parametrize("change", [noise, cut_in_half, ones, largest_integers, directory], ids=lambda change: change.__name__)
@pytest.mark.parametrize("pattern", ["commitlog/*", "consumequeue/*/*/*", "index/*"])
def test_a_replaced_file_of_log_queue_or_index_is_an_error(pattern: str, change: Callable[[Path], None], tmp_path: Path) -> None:
    root = stores.fresh_store("5.3.3-plain", tmp_path)
    change(min(root.glob(pattern)))

    outcome = run("verify", root, *stores.case("5.3.3-plain").set_options(root))

    assert errors(outcome)
    assert outcome.status == FINDINGS


@pytest.mark.parametrize("name", ["commitlog", "consumequeue", "index", "config"])
def test_a_file_where_a_directory_should_be(name: str, tmp_path: Path) -> None:
    root = stores.fresh_store("4.9.8-transactions", tmp_path)
    shutil.rmtree(root / name)
    (root / name).write_bytes(b"not a directory")

    outcome = run("verify", root)
    assert any(one.get("file") == name for one in outcome.objects) or outcome.status == UNREADABLE
    run("info", root)
    run("dump", root)


# ---- lengths


def with_total_size(value: Callable[[StoreView, int], int], number: int, root: Path) -> int:
    """Writes TOTALSIZE of a record; returns the record's physical offset."""
    view = StoreView(root, stores.case("5.3.3-plain").settings(root))
    target = view.records[number]
    with (root / target.path).open("r+b") as stream:
        stream.seek(target.position)
        stream.write(value(view, number).to_bytes(4, "big", signed=True))
    return target.offset


LENGTHS: dict[str, Callable[[StoreView, int], int]] = {
    "largest": lambda view, number: 2**31 - 1,
    "smallest": lambda view, number: -(2**31),
    "minus-one": lambda view, number: -1,
    "zero": lambda view, number: 0,
    "one": lambda view, number: 1,
    "over-the-next-record": lambda view, number: view.records[number].size + view.records[number + 1].size,
    "into-the-next-record": lambda view, number: view.records[number].size + 20,
    "to-the-end-of-the-file": lambda view, number: view.log_file_size - view.records[number].position,
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("number", [0, 40, -1], ids=["first", "inner", "last"])
@pytest.mark.parametrize("how", LENGTHS)
def test_a_hostile_total_size_is_found_and_what_follows_is_read(how: str, number: int, tmp_path: Path) -> None:
    if number == -1 and "next-record" in how:
        pytest.skip("there is no next record")
    root = stores.fresh_store("5.3.3-plain", tmp_path)
    offset = with_total_size(LENGTHS[how], number, root)
    settings = stores.case("5.3.3-plain").set_options(root)

    verified = run("verify", root, *settings)
    dumped = run("dump", root, "--part", "commitlog", *settings).objects

    assert verified.status == FINDINGS
    assert offset in [one.get("offset") for one in verified.objects]
    read = {one["physical_offset"] for one in dumped if one["type"] == "message"}
    written = {line["physicalOffset"] for line in stores.case("5.3.3-plain").truth()}
    assert written - read == {offset}


# ---- permissions


@needs_permissions
@pytest.mark.parametrize("command", COMMANDS)
def test_a_root_that_may_not_be_read(command: str, tmp_path: Path) -> None:
    root = stores.fresh_store("5.3.3-plain", tmp_path)
    root.chmod(0)
    try:
        outcome = without_privileges(command, *OPTIONS.get(command, []), root)
    finally:
        root.chmod(0o755)

    assert outcome.returncode == UNREADABLE
    assert outcome.stderr.startswith("error: ")


@pytest.mark.sampled(2)
@needs_permissions
@pytest.mark.parametrize(
    "path", ["commitlog/00000000000000065536", "consumequeue/TopicA/0/00000000000000000000", "checkpoint", "consumequeue/TopicA", "index"]
)
def test_a_part_that_may_not_be_read_is_a_finding(path: str, tmp_path: Path) -> None:
    root = stores.fresh_store("5.3.3-plain", tmp_path)
    (root / path).chmod(0)
    try:
        outcome = without_privileges("verify", root, "--format", "json")
    finally:
        (root / path).chmod(0o755)

    assert "Traceback" not in outcome.stderr and "unexpected" not in outcome.stderr
    assert outcome.returncode in (FINDINGS, UNREADABLE)
    assert path in outcome.stdout + outcome.stderr


# ---- a store that changes


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", ["verify", "dump"])
@pytest.mark.parametrize("delay", [0.3, 0.7, 1.1])
def test_a_file_that_shrinks_while_it_is_read(command: str, delay: float, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store", log_file_size=16 << 20)
    for number in range(600):
        builder.message(body=bytes(100_000), keys=f"k{number}")
    root = builder.build()
    words = [sys.executable, "-m", "rmqstore", command, str(root), "--format", "json", *(["--body", "hex"] if command == "dump" else [])]

    with (tmp_path / "out").open("w+") as out, subprocess.Popen(words, stdout=out, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(delay)
        for path in (root / "commitlog").iterdir():
            os.truncate(path, 4096)
        error = process.communicate(timeout=LIMIT_SECONDS)[1]

    assert process.returncode in (OK, FINDINGS, UNREADABLE), error
    assert "Traceback" not in error and "unexpected" not in error


def test_blank_only_files_are_survived(tmp_path: Path) -> None:
    """A log of files that hold nothing but BLANK: every jump goes to the next file."""
    for number in range(3):
        path = tmp_path / "store" / "commitlog" / f"{number * 4096:020d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(record.BLANK.build({"total_size": 4096, "magic_code": record.BLANK_MAGIC}).ljust(4096, b"\0"))

    for command in COMMANDS:
        run(command, tmp_path / "store")
