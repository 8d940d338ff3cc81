"""Commands that are shown can be pasted into a shell: the shell sees the very words."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqstore.errors import RefusedError
from rmqstore.repair.transaction.folder import find, refusal, resume_commands
from rmqstore.shellwords import command, quoted
from rmqstore.terminal import printable
from tests.repair.every_action import SAMPLE, Changing
from tests.security.on_terminal import HOSTILE
from tests.security.stopping import stop_in_the_middle
from tests.support import stores
from tests.support.builder import StoreBuilder
from tests.support.cli import rmqstore
from tests.support.waiting import PATIENCE

ODD = ["a b", "it's", 'a"b', "a\nb", "$(touch x)", "`id`", "; rm -rf /", "-x", "", "\\", "\\'\n", "*", "~", HOSTILE, "ä主", "\udc9b\udcff"]
DIRECTORY = f'it\'s a "store" of $(id)\n`x` {HOSTILE}'


def _words(line: str) -> list[bytes]:
    """What a shell makes of a line."""
    return subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True, timeout=PATIENCE).stdout.split(b"\0")[
        :-1
    ]


@pytest.mark.parametrize("word", ODD, ids=ascii)
def test_a_shell_gets_the_word(word: str) -> None:
    assert _words(quoted(word)) == [os.fsencode(word)]
    assert printable(quoted(word)) == quoted(word)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1, max_size=30))
def test_a_shell_gets_any_words(words: list[str]) -> None:
    line = command(*words)
    assert printable(line) == line
    assert _words(line) == [word.encode() for word in words]


@pytest.fixture
def stopped(tmp_path: Path) -> Changing:
    """A store in a directory with a hostile name, in which a transaction was stopped in the middle."""
    root = stores.fresh_store(SAMPLE, tmp_path / DIRECTORY)
    changing = Changing(root, {})
    changing.keep_plan()
    stop_in_the_middle(changing)
    return changing


def test_the_ways_out_of_a_stopped_transaction(stopped: Changing) -> None:
    root = os.fsencode(stopped.root)
    (transaction,) = stopped.transactions
    folder = root + b"/.rmqstore/" + transaction.id.encode()
    expected = [[b"rmqstore", b"apply", folder + b"/plan.json"], [b"rmqstore", b"undo", root, transaction.id.encode()]]
    assert [_words(line) for line in resume_commands(transaction)] == expected
    refused = refusal(transaction)
    assert all(line in refused.hint for line in resume_commands(transaction))
    assert printable(refused.hint) == refused.hint
    (entry,) = rmqstore("history", stopped.root, "--format", "json").objects
    assert [_words(entry[name]) for name in ("continue", "undo")] == expected


def test_hints_that_name_the_history(stopped: Changing) -> None:
    with pytest.raises(RefusedError) as refused:
        find(stopped.root, "nothing")
    line = refused.value.hint.removeprefix("See `").removesuffix("`.")
    assert _words(line) == [b"rmqstore", b"history", os.fsencode(stopped.root)]


def test_the_command_that_takes_a_repair_back(tmp_path: Path) -> None:
    root = StoreBuilder(tmp_path / DIRECTORY).message().message().build()
    (root / "checkpoint").write_bytes(b"\1" * 4096)
    run = rmqstore("recover", root, "--yes")
    assert run.status == 0, run.err
    (line,) = re.findall(r"undo +(rmqstore .*)", run.out)
    assert _words(line)[:3] == [b"rmqstore", b"undo", os.fsencode(root)]


def test_what_doctor_says_to_run_next(tmp_path: Path) -> None:
    root = StoreBuilder(tmp_path / DIRECTORY).message(topic="it's $(id)\n").message().build()
    (root / "checkpoint").write_bytes(b"\1" * 4096)
    run = rmqstore("doctor", root, "--format", "json", "--set", "brokerName=a b")
    steps = [run.objects[-1]["next"], *(one["mend"].rpartition("Next: ")[2] for one in run.objects[:-1])]
    for line in (step for step in steps if step.startswith("rmqstore ")):
        words = _words(line)
        assert words[0] == b"rmqstore"
        assert words[1] == b"explain" or os.fsencode(root) in words
        assert words[1] == b"explain" or b"brokerName=a b" in words


def test_what_explain_says_to_run_next(tmp_path: Path) -> None:
    root = StoreBuilder(tmp_path / DIRECTORY).message().build()
    line = (
        "[BUG]logic queue order maybe wrong, expectLogicOffset: 40 currentLogicOffset: 20 Topic: it's_STORE_$(id)_{topic} QID: 0 Diff: 20"
    )
    log = tmp_path / "store.log"
    log.write_text(f"2024-01-01 00:00:00 WARN main - {line}\n")
    (explained, _) = rmqstore("explain", "--log", log, root, "--format", "json").objects
    expected = [b"rmqstore", b"verify", os.fsencode(root), b"--part", b"consumequeue", b"--topic", b"it's_STORE_$(id)_{topic}"]
    assert _words(explained["next"]) == expected


def test_a_store_below_a_directory_with_an_odd_name(tmp_path: Path) -> None:
    root = StoreBuilder(tmp_path / "above" / "it's $(id)").message().build()
    run = rmqstore("info", root.parent)
    assert f"hint: Give {quoted(root)}." in run.err
    assert json.loads(rmqstore("info", root, "--format", "json").out)["path"] == str(root)
