"""The table of log lines: every line that real brokers printed on damaged stores is one row of it, and no row takes another's lines."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import click
import pytest

from rmqstore.catalogue import CATALOGUE
from rmqstore.catalogue.logline import Cause, LogLine, Pattern, releases_text
from rmqstore.catalogue.loglines import CAUSES, LOG_LINES, find_cause, find_line, find_lines
from rmqstore.cli import COMMANDS, group

RECORDED = [json.loads(line) for line in (Path(__file__).parent / "recorded_lines.jsonl").read_text("utf-8").splitlines()]
SAMPLES = {
    "file": "/data/rocketmq store/commitlog/00000000001073741824",
    "previous_file": "/data/rocketmq store/commitlog/00000000000000000000",
    "topic": "%RETRY%group_x",
    "key": "Orders-3",
    "text": "something",
    "address": "10.0.0.7:10911",
    "ratio": "0.93",
    "magic": "cbd43195",
    "state": "LOAD_BEGIN",
    "new_state": "LOAD_OK",
    "answer": "true",
}
NARROWED = {"OK|Failed": "OK", "0": "0", "daa320ab": "daa320ab", r"[\w$]*": "ReputMessageService", r"(?: so return null)?\s*": ""}
EXAMPLES = json.loads((Path(__file__).parent / "narrowed_values.json").read_text("utf-8"))
"""A value that each narrowed expression accepts."""


def _written(pattern: Pattern) -> str:
    """The text with a value in every place."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        expression = pattern.values.get(name, "")
        if expression in NARROWED or expression in EXAMPLES:
            return NARROWED[expression] if expression in NARROWED else EXAMPLES[expression]
        return SAMPLES.get(name.rstrip("0123456789"), "7")

    return re.sub(r"\{(\w+)\}", value, pattern.text)


ALL_PATTERNS = [(entry.code, pattern) for entry in LOG_LINES.values() for pattern in entry.patterns]


def test_the_recorded_lines_are_many() -> None:
    assert len(RECORDED) > 60
    assert {line["level"] for line in RECORDED} == {"INFO", "WARN", "ERROR"}


def prints(line: LogLine, release: str) -> bool:
    """Whether a broker of this release prints the line."""
    numbers = tuple(map(int, release.split(".")))
    until = numbers if line.until is None else tuple(map(int, line.until.split(".")))
    return line.since_numbers <= numbers and numbers[: len(until)] <= until


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["code"])
def test_a_recorded_line_is_one_row_of_the_table(recorded: dict[str, Any]) -> None:
    message, _, exception = recorded["line"].partition(" | ")
    assert {match.line.code for match in find_lines(message)} == {recorded["code"]}
    line = LOG_LINES[recorded["code"]]
    assert [release for release in recorded["releases"] if not prints(line, release)] == []
    cause = find_cause(exception)
    assert (cause.cause.code if cause is not None else None) == recorded["cause"]


@pytest.mark.parametrize(("code", "pattern"), ALL_PATTERNS, ids=[code for code, _ in ALL_PATTERNS])
def test_no_row_takes_the_lines_of_another(code: str, pattern: Pattern) -> None:
    assert {match.line.code for match in find_lines(_written(pattern))} == {code}


def test_values_come_with_their_names() -> None:
    match = find_line(
        "[BUG]The mappedFile queue's data is damaged, the adjacent mappedFile's offset don't match. "
        "pre file /s/commitlog/0, cur file /s/x y/1"
    )
    assert match is not None
    assert match.values == {"previous_file": "/s/commitlog/0", "file": "/s/x y/1"}


@pytest.mark.parametrize(
    "message",
    [
        "found a half message at nowhere, it will be truncated.",
        "found a half message at 12, it will be truncated. And more",
        "found a illegal magic code 0xGG",
        "last shutdown",
        "CRC check failed. bodyCRC=1",
        "load commit log Failed badly",
        "load topics.json Failed",
        "",
    ],
)
def test_a_line_that_only_resembles_a_row_is_unknown(message: str) -> None:
    assert find_line(message) is None


@pytest.mark.parametrize("line", LOG_LINES.values(), ids=LOG_LINES)
def test_row_is_well_formed(line: LogLine) -> None:
    assert re.fullmatch(r"LOG(-[A-Z0-9]+)+", line.code)
    assert line.meaning.endswith(".") and line.then.endswith(".")
    assert [pattern.text for pattern in line.patterns if pattern.text != pattern.text.strip()] == []
    assert set(line.codes) <= set(CATALOGUE)
    assert len(set(line.codes)) == len(line.codes)
    _assert_command_exists(line.next)


@pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES)
def test_cause_is_well_formed(cause: Cause) -> None:
    assert re.fullmatch(r"CAUSE(-[A-Z]+)+", cause.code)
    assert cause.meaning.endswith(".")
    assert set(cause.codes) <= set(CATALOGUE)
    assert all(
        re.match(r"(?:[a-z0-9]+\.)+(?:[A-Z]\w+(?:Exception|Error)|\{state\})|at org\.apache\.rocketmq\.", one.text)
        for one in cause.patterns
    )
    _assert_command_exists(cause.next)


def _assert_command_exists(text: str) -> None:
    program, name, *words = text.split()
    assert (program, words[0]) == ("rmqstore", "STORE")
    assert name in COMMANDS
    command = group.get_command(click.Context(group), name)
    assert command is not None
    options = {option for parameter in command.params for option in parameter.opts}
    assert [word for word in words if word.startswith("--") and word not in options] == []


@pytest.mark.parametrize(
    ("since", "until", "text"),
    [("4.9", None, "all"), ("4.9", "4.9", "4.9.x"), ("5.0", None, "5.x"), ("5.2", None, "5.2 and later"), ("4.9", "5.0", "up to 5.0")],
)
def test_releases_are_told_in_words(since: str, until: str | None, text: str) -> None:
    assert releases_text(since, until) == text


@pytest.mark.parametrize(
    ("since", "until", "printed"),
    [("4.9", "5.0", ["4.9.8", "5.0.0"]), ("5.3.2", None, ["5.3.2", "5.4.0"]), ("5.0", None, ["5.0.0", "5.3.1", "5.3.2", "5.4.0"])],
)
def test_a_release_prints_a_line_or_not(since: str, until: str | None, printed: list[str]) -> None:
    line = LogLine(code="LOG-X", severity=None, patterns=(Pattern("x"),), meaning="", then="", next="", since=since, until=until)
    assert [release for release in ("4.9.8", "5.0.0", "5.3.1", "5.3.2", "5.4.0") if prints(line, release)] == printed


def test_no_text_makes_matching_slow() -> None:
    started = time.monotonic()
    for _, pattern in ALL_PATTERNS:
        literals = [piece for piece in re.split(r"\{\w+\}", pattern.text) if piece]
        for literal in literals:
            text = (pattern.beginning + literal * 4096 + "".join(literals))[:4096]
            find_line(text)
            find_line(text + "\0")
    assert time.monotonic() - started < 30
