"""A machine for one page: every absolute path that the page names lies below a directory of the test."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from string import Template

from tests.runbooks.damages import DAMAGES
from tests.runbooks.pages import Block, Command, Page
from tests.support import cli
from tests.support.operations import Op, apply
from tests.support.sparse import copy_tree
from tests.support.stores import Case, case, sample_store
from tests.support.storeview import StoreView
from tests.tiered import stores as tiered

TIERED = {f"tiered-{name}": name for name in tiered.NAMES}
"""Stores with tiered storage by the name that a page has for them; their segments are beside them."""

_ASSIGNMENT = re.compile(r"([A-Z]+)=(.*)")


class TieredCase(Case):
    """One of these stores."""

    def settings(self, root: Path | str) -> dict[str, str]:
        return tiered.settings(TIERED[self.name], Path(root).parent)


class Machine:
    """Runs the commands of a page; `variables` are those that the page has set so far."""

    def __init__(self, page: Page, directory: Path) -> None:
        self.case: Case = TieredCase(page.store, {}) if page.store in TIERED else case(page.store)
        self.sample = self._unpacked(directory / "sample") if page.store in TIERED else sample_store(page.store)
        self.variables: dict[str, str] = {}
        self._damages = page.damages
        self._operations: list[Op] = []
        self._log_file_size = 0
        self._directory = directory

    @property
    def store(self) -> Path:
        return Path(self.variables["STORE"])

    @property
    def settings(self) -> dict[str, str]:
        return self.case.settings(self.store)

    def run(self, block: Block) -> str:
        """Runs a block and returns what it printed, as if the paths of the page were those of the machine."""
        printed = "".join(self._run(command) for command in block.commands)
        return printed.replace(str(self._directory), "")

    def _run(self, command: Command) -> str:
        words = command.words
        assignment = _ASSIGNMENT.fullmatch(words[0]) if len(words) == 1 else None
        if assignment is not None:
            self._assign(*assignment.groups())
            return ""
        run = self._rmqstore(words[1:]) if words[0] == "rmqstore" else self._shell(command)
        assert run.status == command.status, f"{command.line}\nended with {run.status}:\n{run.out}{run.err}"
        return run.out + run.err

    def _rmqstore(self, words: list[str]) -> cli.Run:
        return cli.rmqstore(*(Template(word).substitute(self.variables) for word in words))

    def _shell(self, command: Command) -> cli.Run:
        run = subprocess.run(["bash", "-euc", command.line], env={**os.environ, **self.variables}, capture_output=True, text=True)
        return cli.Run(run.returncode, run.stdout, run.stderr)

    def _assign(self, name: str, value: str) -> None:
        if value.startswith("/"):
            path = self._directory / value.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            value = str(path)
        self.variables[name] = value
        if name == "STORE":
            self._lay_out()
        elif name == "REPLICA":
            copy_tree(self.sample, Path(value))
        elif name == "CONF":
            Path(value).write_text("".join(f"{key}={setting}\n" for key, setting in self.settings.items()), encoding="utf-8")

    def damaged(self, physical_offset: int, size: int) -> bool:
        """Whether a damage overwrote bytes of this range of the log, or took its file away."""
        for operation in self._operations:
            directory, _, name = operation.path.rpartition("/")
            if directory == "commitlog" and name.isdecimal():
                position, length = operation.span or (0, self._log_file_size)
                if int(name) + position < physical_offset + size and physical_offset < int(name) + position + length:
                    return True
        return False

    def _unpacked(self, directory: Path) -> Path:
        directory.mkdir()
        return tiered.unpacked(TIERED[self.case.name], directory)

    def _lay_out(self) -> None:
        """Copies the sample store to its place and damages it; all damages are planned on the undamaged store."""
        copy_tree(self.sample, self.store)
        if self.case.name in TIERED:
            copy_tree(self.sample.parent / "segments", self.store.parent / "segments")
        view = StoreView(self.store, self.settings)
        self._log_file_size = view.log_file_size
        self._operations = [operation for name in self._damages for operation in DAMAGES[name](view)]
        apply(self._operations, self.store)
