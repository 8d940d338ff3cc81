"""A runbook page as data: the store that its header describes, its blocks of commands, and what the page shows of their output."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parents[2] / "docs" / "runbooks"
INDEX = DIRECTORY / "README.md"
PAGES = sorted(path for path in DIRECTORY.glob("*.md") if path != INDEX)
UNDO = "Undo"
SECTIONS = ["When", "Do", UNDO, "Never"]

_HEADER = re.compile(r"<!-- store: (?P<store>\S+), damage: (?P<damage>\S+(?: \+ \S+)*) -->\n")
_PART = re.compile(r"^## (?P<section>[^\n]+)$|^```(?P<language>\w+)\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)
_STATUS = re.compile(r"#.*\bends with (\d+)")


@dataclass(frozen=True, slots=True)
class Command:
    """One line of a block and the exit status that its comment states, 0 without one."""

    line: str
    status: int

    @property
    def words(self) -> list[str]:
        """The words of the shell, variables as they stand."""
        return shlex.split(self.line, comments=True)


@dataclass(frozen=True, slots=True)
class Block:
    """The commands of one fence, in order; `shown`: lines of the fence with output behind it, where … stands for anything."""

    section: str
    commands: tuple[Command, ...]
    shown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Page:
    """One page of docs/runbooks."""

    text: str

    @property
    def store(self) -> str:
        """The sample store that the page is tried on."""
        return self._header["store"]

    @property
    def damages(self) -> list[str]:
        """What happened to it, names of `tests.support.damages.DAMAGES`."""
        return self._header["damage"].split(" + ")

    @property
    def sections(self) -> list[str]:
        """The headings, in order."""
        return re.findall(r"^## (.+)$", self.text, re.MULTILINE)

    @property
    def symptoms(self) -> list[str]:
        """The lines of a broker's log by which the page is found."""
        return [line for section, language, content in self._fences if (section, language) == ("When", "text") for line in content]

    @property
    def blocks(self) -> list[Block]:
        """The blocks of commands, in order, each with the output that the page shows behind it."""
        found: list[Block] = []
        for section, language, content in self._fences:
            if language == "sh":
                found.append(Block(section, tuple(_command(line) for line in content)))
            elif section != "When":
                found[-1] = Block(found[-1].section, found[-1].commands, tuple(content))
        return found

    @cached_property
    def _header(self) -> re.Match[str]:
        header = _HEADER.match(self.text)
        assert header is not None, "a page begins with <!-- store: NAME, damage: NAME + NAME -->"
        return header

    @cached_property
    def _fences(self) -> list[tuple[str, str, list[str]]]:
        """Section, language and lines of every fence."""
        section, found = "", []
        for part in _PART.finditer(self.text):
            if part["section"] is not None:
                section = part["section"]
            else:
                found.append((section, part["language"], [line for line in part["content"].splitlines() if line.strip()]))
        return found


def read(path: Path) -> Page:
    """The page of a file."""
    return Page(path.read_text(encoding="utf-8"))


def _command(line: str) -> Command:
    status = _STATUS.search(line)
    return Command(line, 0 if status is None else int(status[1]))
