"""Text of every command in terminals of several widths: no line is too long, no word is broken, times are no numbers."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rmqstore.cli import COMMANDS
from rmqstore.render.widths import cells, is_command
from tests.support.cli import Run, rmqstore
from tests.support.stores import case, fresh_store, sample_store

WIDTHS = (80, 120, 200)
BROKER = "broker-5.5.1-crash"
RELEASE = ("--broker-version", "5.3.3")
LOG_FILE = "commitlog/00000000000000262144"
LINE = "2026-01-01 00:00:00 WARN main - found a illegal magic code 0x0"

READING = [
    ("info",),
    ("dump", "--part", "commitlog", "--limit", "40"),
    ("dump", "--part", "checkpoint"),
    ("dump", "--part", "timerlog", "--limit", "5"),
    ("query", "--key", "tx4"),
    *((name,) for name in ("queues", "topics", "groups", "timers", "pending", "history", "doctor", "verify", "predict", "stats")),
    ("doctor", "-v"),
    ("predict", "--what-if", "version=5.3.3,5.5.1"),
]
"""Commands on the store of a whole broker, with the words after STORE."""
WORDS = [
    ("explain", "RMQ-CL-CRC"),
    ("explain", "--list"),
    ("explain", LINE),
    ("explain", "no such line at all in a log"),
    ("explain", "AC11000200002A9F0000000000000369"),
]
"""Commands without a store."""
WRITING = [
    ("recover", "--dry-run", *RELEASE),
    ("recover", "--yes", *RELEASE),
    ("fix", "--yes", *RELEASE),
    ("truncate", "--dry-run"),
    ("rebuild-consumequeue", "--dry-run", "--only-missing"),
    ("rebuild-index", "--yes"),
    ("rebuild-checkpoint", "--yes"),
    ("convert", "--to", "files", "--dry-run"),
    ("verify",),
    ("doctor",),
]
"""Commands on a store with a damaged log."""
DATA_ALONE = {"completion", "export", "sql"}

_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_MILLISECONDS = re.compile(r"(?<![\w@#/.-])1[6-9]\d{11}(?![\w@/-])")
_VERDICT = re.compile(r"[A-Z]{2,}")
_CHANGING = re.compile(r"\d+(\.\d+)?|\d{8}T?-?\d{6}.*")


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A store whose log has bytes that are no record."""
    root = fresh_store("5.3.3-plain-crash", tmp_path)
    with (root / LOG_FILE).open("r+b") as log:
        log.seek(8548)
        log.write(b"no record")
    return root


def test_every_command_is_measured() -> None:
    measured = {words[0] for words in (*READING, *WORDS, *WRITING)} | {"apply", "undo", "diff", "snapshot", "offsets", "merge-paths"}
    assert measured | DATA_ALONE == set(COMMANDS)


@pytest.mark.sampled(40)
@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_what_reads(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    measure((words[0], sample_store(BROKER), *words[1:]), monkeypatch)


@pytest.mark.sampled(40)
@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_words(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    measure(words, monkeypatch)


def test_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = sample_store("5.3.3-plain"), sample_store("5.3.3-plain-crash")
    measure(("diff", one, other), monkeypatch)
    measure(
        ("snapshot", one, tmp_path / "copy"),
        monkeypatch,
        before=lambda: shutil.rmtree(tmp_path / "copy", ignore_errors=True),
        widths=(80,),
        color=False,
    )


@pytest.mark.sampled(40)
@pytest.mark.parametrize("words", WRITING, ids=" ".join)
def test_what_writes(words: tuple[str, ...], damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "kept"
    shutil.copytree(damaged, kept)

    def again() -> None:
        shutil.rmtree(damaged)
        shutil.copytree(kept, damaged)

    measure((words[0], damaged, *words[1:]), monkeypatch, before=again, widths=(80,), color=False)


def test_plans_and_undo(damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tmp_path / "plan.json"
    assert rmqstore("recover", damaged, "--plan-out", plan, *RELEASE).status == 0
    monkeypatch.setenv("COLUMNS", "80")
    for run in (rmqstore("apply", plan, "--yes"), rmqstore("history", damaged), rmqstore("undo", damaged, "--yes")):
        assert too_long(run, 80) == []
        assert _VERDICT.match(run.out)


def test_offsets_of_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = fresh_store(BROKER, tmp_path)
    measure(("offsets", root, "--group", "g_dlq", "--to-end", "--dry-run"), monkeypatch, widths=(80,), color=False)


def test_directories_of_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    root = sample_store("5.5.1-multipath")
    options = case("5.5.1-multipath").set_options(root)
    measure(("merge-paths", root, "--into", root / "commitlog", "--dry-run", *options), monkeypatch, widths=(80,), color=False)


def words_of(run: Run) -> set[str]:
    """Return the words that were printed, a command in backquotes as on a line of its own."""
    return {word.strip("`,") for word in run.out.split()}


def measure(
    words: tuple[str | Path, ...],
    monkeypatch: pytest.MonkeyPatch,
    *,
    before: Callable[[], object] = lambda: None,
    widths: Sequence[int] = WIDTHS,
    color: bool = True,
) -> None:
    """A verdict first, or last where rows stream; a next step; lines that fit; words that are whole."""
    monkeypatch.delenv("COLUMNS", raising=False)
    before()
    wide = rmqstore(*words)
    assert not wide.crashed
    whole = words_of(wide)
    for width in widths:
        monkeypatch.setenv("COLUMNS", str(width))
        before()
        run = rmqstore(*words)
        assert too_long(run, width) == []
        assert {word for word in words_of(run) if "…" not in word and not _CHANGING.fullmatch(word)} <= whole
        assert _MILLISECONDS.findall(run.out) == []
        lines = run.out.splitlines()
        assert any(_VERDICT.match(line) for line in (lines[0], lines[-1])) or words[0] in ("dump", "query")
    if color:
        colored = rmqstore(*words, "--color", "always")
        assert "\x1b[" in colored.out
        assert too_long(colored, widths[-1]) == []


def too_long(run: Run, width: int) -> list[str]:
    """The lines that are longer than the width and no command to paste."""
    lines = _COLOR.sub("", run.out).splitlines()
    return [line for line in lines if cells(line) > width and not is_command(line.strip())]
