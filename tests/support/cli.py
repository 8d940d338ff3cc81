"""The command line in this process: exit status, standard output and standard error of one run."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmqstore.cli import main


@dataclass(frozen=True, slots=True)
class Run:
    status: int
    out: str
    err: str

    @property
    def crashed(self) -> bool:
        """Whether the program failed in a way that it did not foresee."""
        return "Traceback" in self.err or "unexpected" in self.err

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The JSON lines of standard output."""
        return [json.loads(line) for line in self.out.splitlines()]


def rmqstore(*arguments: str | Path) -> Run:
    """Runs `rmqstore ARGUMENTS` and returns what it said.

    The streams are real files, because fast paths write to the descriptor behind `sys.stdout`.
    """
    kept = sys.stdout, sys.stderr
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as err,
    ):
        sys.stdout, sys.stderr = out, err
        try:
            status = main([str(argument) for argument in arguments])
        finally:
            sys.stdout, sys.stderr = kept
        for stream in (out, err):
            stream.flush()
            stream.seek(0)
        return Run(status, out.read(), err.read())
