"""Every package of the tree is in the wheel: the list in pyproject.toml names it."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_package_is_listed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "rmqstore").rglob("__init__.py")}
    assert set(settings["packages"]) == found | set(settings["package-dir"])
