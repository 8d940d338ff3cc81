"""The pages are complete and name only what there is."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from rmqstore.catalogue import CATALOGUE
from rmqstore.catalogue.loglines import find_cause, find_line
from rmqstore.cli import COMMANDS, group
from tests.runbooks import pages
from tests.runbooks.damages import DAMAGES
from tests.runbooks.machine import TIERED
from tests.runbooks.pages import INDEX, PAGES, SECTIONS
from tests.support.stores import cases

ROOT = pages.DIRECTORY.parents[1]
every_page = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
every_file = pytest.mark.parametrize("path", [*PAGES, INDEX], ids=lambda path: path.stem)


def test_the_index_lists_every_page_once() -> None:
    linked = re.findall(r"\]\(([a-z-]+\.md)\)", INDEX.read_text(encoding="utf-8"))
    assert linked
    assert sorted(linked) == [path.name for path in PAGES]


def test_the_readme_leads_to_every_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in (INDEX, *PAGES) if f"(docs/runbooks/{path.name})" not in text] == []


@every_page
def test_a_page_says_when_what_how_to_go_back_and_what_never_to_do(path: Path) -> None:
    assert pages.read(path).sections == SECTIONS


@every_page
def test_a_page_is_tried_on_a_store_and_damages_that_exist(path: Path) -> None:
    page = pages.read(path)
    assert page.store in {case.name for case in cases()} | TIERED.keys()
    assert set(page.damages) <= set(DAMAGES)


@every_page
def test_a_page_sets_its_variables_looks_repairs_and_goes_back(path: Path) -> None:
    settings, *steps = pages.read(path).blocks
    assert {command.line.partition("=")[0] for command in settings.commands} >= {"STORE", "CONF", "RELEASE", "PLAN"}
    named = [command.words[1] for block in steps for command in block.commands if command.words[0] == "rmqstore"]
    assert named[0] in ("info", "doctor", "verify", "diff")
    assert {"apply", "undo"} <= set(named)
    assert all(block.shown for block in steps)


@every_page
def test_the_symptoms_of_a_page_are_lines_that_explain_knows(path: Path) -> None:
    assert [line for line in pages.read(path).symptoms if find_line(line) is None and find_cause(line) is None] == []


@every_file
def test_a_page_names_only_commands_options_and_codes_that_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    calls = re.findall(r"\brmqstore ([a-z-]+)([^`\n#]*)", text)
    assert calls
    assert {name for name, _ in calls} <= set(COMMANDS)
    options = {(name, option) for name, rest in calls for option in re.findall(r"(?<=\s)--[a-z-]+", rest)}
    assert {(name, option) for name, option in options if option not in _options(name)} == set()
    assert set(re.findall(r"RMQ-[A-Z]{2}(?:-[A-Z0-9]+)+", text)) <= set(CATALOGUE)


@every_file
def test_links_of_a_page_lead_somewhere(path: Path) -> None:
    named = re.findall(r"\]\(([^):]+)\)|\b([a-z-]+\.md)\b", path.read_text(encoding="utf-8"))
    assert [name for pair in named for name in pair if name and not (path.parent / name).exists()] == []


def _options(name: str) -> set[str]:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    return {option for parameter in command.params for option in parameter.opts}
