"""The command line in this process: exit status, standard output and standard error of one run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rmqstore.cli import main
from tests.support.jsonobjects import misfits
from tests.support.waiting import PATIENCE

DESCRIBED = frozenset(
    {"doctor", "verify", "recover", "truncate", "rebuild-consumequeue", "rebuild-index", "rebuild-checkpoint", "apply", "undo"}
    | {"explain", "info", "stats", "predict", "history"}
    | {"fix", "queues", "topics", "groups", "timers", "pending", "query", "diff", "snapshot", "offsets", "dump"}
)
"""Commands whose objects have a schema."""


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
        return [json.loads(line) for line in self.out.split("\n") if line]


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
        run = Run(status, out.read(), err.read())
    _require_described(run, *map(str, arguments))
    return run


needs_permissions = pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may read everything, and there is no setpriv to give up that right"
)


def without_privileges(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs rmqstore in a process where file permissions count: as root without the right to override them."""
    drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"] if os.geteuid() == 0 else []
    words = [*drop, sys.executable, "-P", "-m", "rmqstore", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)


def _require_described(run: Run, *arguments: str) -> None:
    """Every object of these commands that any test sees has a schema and fits it."""
    if not DESCRIBED.isdisjoint(arguments) and ("json" in arguments or "--format=json" in arguments) and not run.crashed:
        wrong = {problem for value in run.objects for problem in misfits(value)}
        assert not wrong, f"rmqstore {' '.join(arguments)}: {sorted(wrong)}"
