"""Run only what the tool prints as the next command, as a person does who knows nothing else."""

from __future__ import annotations

import shlex
import subprocess

from tests.support.cli import rmqstore

START = "Start the broker"
STEPS = 6
CHANGING = frozenset({"recover", "rebuild-consumequeue", "rebuild-index", "rebuild-checkpoint", "truncate", "fix"})


def follow(words: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Run a command and what is printed at its end, until that is the start or nothing; return the outputs and the names of the commands.

    A command that changes the store gets the consent that a person gives; a line that is no command of the tool is run by a shell.
    After such a line, the first command is run again, as the person does.
    """
    first, seen, steps = words, [], []
    for _ in range(STEPS):
        run = rmqstore(*words, *(("--yes",) if words[0] in CHANGING else ()))
        assert not run.crashed
        seen.append(run.out)
        step = run.out.rstrip("\n").splitlines()[-2 if words[0] == "verify" else -1]  # verify ends with the verdict
        if step.startswith((START, "Nothing to do")):
            return seen, tuple(steps)
        if step.startswith("rmqstore "):
            words = shlex.split(step)[1:]
        else:
            subprocess.run(["bash", "-euc", step], check=True)
            words = first
        steps.append(shlex.split(step)[1] if step.startswith("rmqstore ") else shlex.split(step)[0])
    raise AssertionError(f"no end after {steps}: {seen[-1]}")
