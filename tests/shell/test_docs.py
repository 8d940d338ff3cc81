"""The generated pages are those that the present code generates, and what they name exists."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType

import click
import pytest

from rmqstore.catalogue import CATALOGUE
from rmqstore.cli import COMMANDS, group

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_findings_page_is_current(generate: ModuleType) -> None:
    assert (ROOT / "docs" / "findings.md").read_text(encoding="utf-8") == generate.findings_page(), "run: python docs/generate.py"


def test_loglines_page_is_current(generate: ModuleType) -> None:
    assert (ROOT / "docs" / "loglines.md").read_text(encoding="utf-8") == generate.loglines_page(), "run: python docs/generate.py"


def test_json_page_is_current(generate: ModuleType) -> None:
    assert (ROOT / "docs" / "json.md").read_text(encoding="utf-8") == generate.json_page(), "run: python docs/generate.py"


def test_man_page_is_current(generate: ModuleType) -> None:
    assert (ROOT / "docs" / "rmqstore.1").read_text(encoding="utf-8") == generate.man_page(), "run: python docs/generate.py"


def test_cli_page_is_current(generate: ModuleType) -> None:
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == generate.cli_page(), "run: python docs/generate.py"


def test_every_command_has_its_chapter_in_the_cli_page() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == list(COMMANDS)


@pytest.mark.parametrize("page", ["README.md", "docs/architecture.md", "docs/findings.md", "docs/loglines.md", "CHANGELOG.md"])
def test_a_page_names_only_commands_that_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`rmqstore (?:--debug )?([a-z][a-z-]*)", text)) | set(
        re.findall(r"^(?:\$ )?rmqstore ([a-z][a-z-]*)", text, re.MULTILINE)
    )
    assert named <= set(COMMANDS)


@pytest.mark.parametrize("page", ["README.md", "docs/findings.md", "docs/loglines.md"])
def test_a_page_names_only_options_that_its_commands_have(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    calls = re.findall(r"\brmqstore ([a-z-]+)([^`\n#]*)", text)
    root = click.Context(group)
    known = {name: {option for parameter in _command(root, name).params for option in parameter.opts} for name in COMMANDS}
    named = [(name, option) for name, rest in calls if name in COMMANDS for option in re.findall(r"(?<=\s)--[a-z-]+", rest)]
    assert len(named) > 1
    assert [(name, option) for name, option in named if option not in known[name]] == []


def _command(root: click.Context, name: str) -> click.Command:
    command = group.get_command(root, name)
    assert command is not None
    return command


def test_readme_names_only_paths_that_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    relative = re.findall(r"\]\(([^):]+)\)", text)
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    words = [word for line in blocks.splitlines() for word in shlex.split(line, comments=True)]
    stores = [word for word in words if word.startswith("sample-stores/")]
    assert relative and stores
    assert [path for path in (*relative, *stores) if not (ROOT / path).exists()] == []


def test_mends_name_only_codes_that_exist() -> None:
    named = {code for entry in CATALOGUE.values() for code in re.findall(r"RMQ-[A-Z]{2}(?:-[A-Z]+)+", entry.mend + entry.meaning)}
    assert named <= set(CATALOGUE)
