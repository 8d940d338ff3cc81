"""Each recipe of CONTRIBUTING.md, followed word for word in a copy of the tree, ends with tests that pass."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^### (Add .+?)\n(.*?)(?=^### |\Z)", PAGE, re.MULTILINE | re.DOTALL))
STEP = re.compile(r"(?:(New file) `(.+?)`|In `(.+?)`, after `(.+?)`):\n\n```\w+\n(.*?)^```\n|^```sh\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the tree as git knows it, laid out so that the package is imported from it."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        target = tmp_path / "tree" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name.startswith("sample-stores/"):
            os.link(REPOSITORY / name, target) if _same_device(target) else target.symlink_to(REPOSITORY / name)
        elif (REPOSITORY / name).is_file():
            target.write_bytes((REPOSITORY / name).read_bytes())
            target.chmod((REPOSITORY / name).stat().st_mode)
    for package in ("formats", "commands"):
        (tmp_path / "tree" / "rmqstore" / package).symlink_to(f"../{package}")
    return tmp_path / "tree"


def test_there_are_three_recipes() -> None:
    assert list(RECIPES) == ["Add a finding", "Add a format", "Add a release"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe(name: str, tree: Path) -> None:
    ran = 0
    for new, file, into, line, text, commands in STEP.findall(RECIPES[name]):
        if new:
            (tree / file).parent.mkdir(exist_ok=True)
            (tree / file).write_text(text, encoding="utf-8")
        elif into:
            before = (tree / into).read_text(encoding="utf-8")
            assert before.count(f"{line}\n") == 1, f"{into} has the line {line!r} {before.count(line)} times"
            (tree / into).write_text(before.replace(f"{line}\n", f"{line}\n{text}"), encoding="utf-8")
        for command in commands.splitlines():
            done = _run(command, tree)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            ran += 1
    assert ran


def _run(command: str, tree: Path) -> subprocess.CompletedProcess[str]:
    """Run a command line of the page with this interpreter; the package is imported from the tree."""
    python, *words = command.split()
    assert python == ".venv/bin/python"
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTEST_ADDOPTS": "-p no:cacheprovider -n 0"}
    return subprocess.run([sys.executable, *words], cwd=tree, env=environment, capture_output=True, text=True, timeout=PATIENCE)


def _same_device(target: Path) -> bool:
    return target.parent.stat().st_dev == REPOSITORY.stat().st_dev
