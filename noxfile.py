"""Development sessions; they use the interpreter that nox runs in."""

from __future__ import annotations

import sys
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["check"]

FAST = ("formats", "store", "scan", "rebuild", "api", "shell")
"""Folders of tests that together need less than half a minute."""

RELEASES = ("3.11:4.0", "3.11:4.3", "3.12:4.1", "3.13:4.0", "3.13:4.2", "3.13:4.3")
"""Pairs of Python and PySpark that are supported: the oldest and the newest of both, and one of each release between them."""


@nox.session
def check(session: nox.Session) -> None:
    """Run linter, type checker, import layers and the fast tests: below a minute."""
    session.run(sys.executable, "-m", "ruff", "check", ".")
    session.run(sys.executable, "-m", "ruff", "format", "--check", ".")
    session.run(".ci/typecheck-tree", external=True)
    session.run(sys.executable, "-m", "mypy")
    with session.chdir(".typecheck"):
        session.run(Path(sys.executable).with_name("lint-imports"), "--config", "../pyproject.toml", external=True)
    session.run(sys.executable, "-m", "pytest", "-q", *(f"tests/{folder}" for folder in FAST))


@nox.session
def test(session: nox.Session) -> None:
    """Run all tests; arguments go to pytest."""
    session.run(sys.executable, "-m", "pytest", *session.posargs)


@nox.session
def exhaustive(session: nox.Session) -> None:
    """Run the cases of large products that the other session leaves out."""
    session.run(sys.executable, "-m", "pytest", "-m", "exhaustive and not thorough", *session.posargs)


@nox.session
def matrix(session: nox.Session) -> None:
    """Run a short test with each pair of Python and PySpark; arguments are pairs such as 3.12:4.1, of which all are run by default."""
    for pair in session.posargs or RELEASES:
        python, _, spark = pair.partition(":")
        place = Path(session.create_tmp()) / pair.replace(":", "-")
        session.run(f"python{python}", "-m", "venv", "--clear", str(place), external=True)
        session.run(str(place / "bin" / "pip"), "install", "--quiet", "-e", ".[test]", f"pyspark[sql]=={spark}.*", external=True)
        session.run(str(place / "bin" / "python"), "-m", "pytest", "-n", "0", "tests/pipeline/test_release.py", external=True)


@nox.session
def bench(session: nox.Session) -> None:
    """Run the benchmarks; arguments go to them."""
    session.run(sys.executable, "-m", "benchmarks", *session.posargs)
