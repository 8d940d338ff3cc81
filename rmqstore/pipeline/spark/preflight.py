"""Whether processes of Spark can run this package at all: the executors of a cluster, the workers of a local session.

A task of rmqstore cannot report that rmqstore is missing, so these consist of a nested function alone, which travels as code and
imports what it looks for.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rmqstore import __version__
from rmqstore.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_MOST = 256
"""Tasks; more executors than that are not visited."""
_INSTALL = "Install rmqstore[spark] {version} there, or ship an environment with spark.archives; docs/spark.md shows how."


def context_of(session: SparkSession) -> SparkContext | None:
    """Return the context of a session, None for a client of Spark Connect, which has none."""
    from pyspark.errors import PySparkAttributeError

    try:
        return session.sparkContext
    except PySparkAttributeError:
        return None


def require_package_here(context: SparkContext) -> None:
    """Raise UsageError if a local session starts its workers with a Python without rmqstore, such as that outside of an environment."""
    python = shutil.which(context.pythonExec)
    if python is None or not (context.master or "").startswith("local") or Path(python).parent == Path(sys.executable).parent:
        return
    tried = subprocess.run([python, "-c", "import rmqstore"], capture_output=True, text=True)
    if "ModuleNotFoundError: No module named 'rmqstore'" in tried.stderr:
        raise UsageError(
            f"Spark starts its workers with {python}, which has no rmqstore.",
            f"Set the environment variable PYSPARK_PYTHON to {sys.executable} before the session is created.",
        )


def preflight(context: SparkContext) -> None:
    """Raise RefusedError, with the name of a host, if rmqstore is missing there or of another version, and what Spark raises."""
    count = max(1, min(context.defaultParallelism, _MOST))

    def look(numbers: Iterable[int]) -> Iterator[tuple[str, str, str]]:
        import importlib
        import socket
        import sys

        try:
            found = importlib.import_module("rmqstore").__version__
            importlib.import_module("rmqstore.pipeline.spark.runner")
            problem = ""
        except ImportError as error:
            found, problem = "", str(error)
        yield socket.gethostname(), found, problem or sys.executable

    context.setJobDescription("rmqstore: look at the executors")
    for host, found, detail in sorted(set(context.parallelize(range(count), count).mapPartitions(look).collect())):
        if not found:
            raise RefusedError(f"Host {host} cannot load rmqstore: {detail}.", _INSTALL.format(version=__version__))
        if found != __version__:
            raise RefusedError(
                f"Host {host} has rmqstore {found} ({detail}), and this command is {__version__} ({sys.executable}).",
                _INSTALL.format(version=__version__),
            )
