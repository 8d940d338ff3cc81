"""Nothing from a store reaches a terminal as anything but visible text."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rmqstore.terminal import printable, printable_json
from tests.security.on_terminal import HOSTILE, STEERING, shown
from tests.support.builder import StoreBuilder
from tests.support.waiting import PATIENCE

_MAY_BE_EMPTY = ("groups", "timers", "pending", "history")
"""Commands that print no row where a store has nothing of what they list."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose topic, properties, bodies, configuration and foreign files all hold hostile text."""
    root = tmp_path_factory.mktemp("hostile") / f"store {HOSTILE}"
    builder = StoreBuilder(root)
    for number in range(3):
        builder.message(topic=HOSTILE, tags=HOSTILE, keys=HOSTILE, properties={HOSTILE: HOSTILE}, body=f"{number}{HOSTILE}".encode())
    builder.build()
    (root / f"foreign {HOSTILE}").write_text("x")
    (root / b"not utf-8 \x9b\x80".decode("utf-8", "surrogateescape")).write_text("x")
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": {HOSTILE: {"topicName": HOSTILE}}}, ensure_ascii=False))
    (root / "commitlog" / f"odd {HOSTILE}").write_text("x")
    return root


@pytest.mark.sampled(9)
@pytest.mark.parametrize("format", ["table", "json", "csv"])
@pytest.mark.parametrize(
    "words",
    [
        ("info",),
        ("verify",),
        ("doctor",),
        ("dump", "--body", "text"),
        ("dump", "--part", "consumequeue"),
        ("dump", "--part", "index"),
        ("stats",),
        ("queues",),
        ("topics",),
        ("groups",),
        ("timers",),
        ("pending",),
        ("predict",),
        ("history",),
        ("query", "--topic", "{hostile}", "--key", "{hostile}"),
        ("recover", "--dry-run"),
        ("recover",),
        ("recover", "--plan-out", "{tmp}/plan {hostile}"),
        ("undo",),
    ],
    ids=" ".join,
)
def test_commands_on_a_hostile_store(words: tuple[str, ...], format: str, store: Path, tmp_path: Path) -> None:
    name, *options = (word.format(tmp=tmp_path, hostile=HOSTILE) for word in words)
    written, _ = shown(name, store, "--no-progress", "--format", format, *options)
    assert written.strip() or name in _MAY_BE_EMPTY
    assert "Traceback" not in written
    assert STEERING.findall(written) == []


@pytest.mark.parametrize("format", ["table", "json", "csv"])
def test_dump_of_a_json_file(format: str, store: Path) -> None:
    written, status = shown("dump", store / "config" / "topics.json", "--format", format)
    assert (status, STEERING.findall(written)) == (0, [])
    assert "\\u202e" in written


@pytest.mark.parametrize("format", ["table", "json", "csv"])
def test_explain_log(format: str, store: Path, tmp_path: Path) -> None:
    log = tmp_path / "store.log"
    log.write_text(
        f"2024-01-01 00:00:00 ERROR main - {HOSTILE} an unknown error\n"
        f"2024-01-01 00:00:00 WARN main - [BUG]logic queue order maybe wrong, expectLogicOffset: 1 {HOSTILE}\n"
        f"2024-01-01 00:00:00 ERROR main - load file {HOSTILE} error\n",
    )
    written, status = shown("explain", "--log", log, store, "--format", format)
    assert (status, STEERING.findall(written)) == (0, [])
    assert "\\u202e" in written


@pytest.mark.parametrize(
    "words",
    [
        ("info", f"/nowhere/{HOSTILE}"),
        ("dump", f"/nowhere/{HOSTILE}"),
        ("apply", f"/nowhere/{HOSTILE}"),
        ("explain", HOSTILE),
        ("explain", "--log", f"/nowhere/{HOSTILE}"),
        (HOSTILE,),
        ("info", f"--{HOSTILE}"),
        ("info", "/nowhere", "--set", HOSTILE),
        ("info", "/nowhere", "--broker-version", HOSTILE),
        ("--debug", "info", "/nowhere", "--set", f"storePathCommitLog={HOSTILE}"),
    ],
    ids=lambda words: printable(" ".join(words)),
)
def test_errors_and_usage_mistakes(words: tuple[str, ...]) -> None:
    written, status = shown(*words)
    assert status in (0, 1, 2, 4)
    assert written.strip()
    assert STEERING.findall(written) == []


def test_the_traceback_that_debug_prints() -> None:
    code = f"import sys\nfrom rmqstore import cli\ncli.set_up_process()\nraise ValueError({HOSTILE!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=PATIENCE)
    told = done.stderr.decode()
    assert "Traceback" in told
    assert "\\x1b[2Jb" in told.splitlines()[-1]
    assert STEERING.findall(told) == []


def test_json_on_a_terminal_says_the_same(store: Path) -> None:
    words = "dump", store, "--format", "json", "--body", "text"
    on_terminal, _ = shown(*words)
    piped = subprocess.run([sys.executable, "-m", "rmqstore", *map(str, words)], capture_output=True, timeout=PATIENCE).stdout.decode()
    assert HOSTILE.rpartition("\u061c")[2] in piped
    assert [json.loads(line) for line in on_terminal.split("\n") if line] == [json.loads(line) for line in piped.split("\n") if line]


def test_names_without_such_characters_are_shown_as_they_are() -> None:
    assert printable("Thema-ä-主题-%RETRY%") == "Thema-ä-主题-%RETRY%"
    assert printable_json('{"a":"ä主"}\n') == '{"a":"ä主"}\n'


def test_every_such_character_becomes_an_escape() -> None:
    everything = "".join(map(chr, range(0x110000)))
    assert STEERING.findall(printable(everything)) == []
    assert "\n" not in printable(everything)
    assert printable("\x1b\u202e\udc9b\t\n") == "\\x1b\\u202e\\udc9b\\t\\n"
