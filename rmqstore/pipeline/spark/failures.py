"""Failures of Spark as one sentence what happened and one what to do.

Spark reports the error of a task with the stack of Java, the text of the exceptions that it passed through, and a traceback of Python. What
users can do something about is recognized by the words that each layer uses for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError

from rmqstore import errors
from rmqstore.errors import RefusedError, RmqstoreError

OF_JAVA = (Py4JError, ConnectionError)
"""The exceptions of calls of Java."""

DOCUMENT = "docs/spark.md"


class _Known(NamedTuple):
    """A cause: words by which it is recognized, the error, and sentences with the groups of the words and `{host}`."""

    words: re.Pattern[str]
    kind: Callable[[str, str], RmqstoreError]
    message: str
    hint: str


_KNOWN = (
    _Known(
        re.compile(r"No module named '(?P<name>rmqstore|numpy|pyarrow|construct|crcmod|numba|llvmlite|pandas|pyspark)[\w.]*'"),
        RefusedError,
        "{host} has no Python package {name}.",
        f"Install rmqstore[spark] there, or ship an environment with spark.archives; {DOCUMENT} shows how.",
    ),
    _Known(
        re.compile(r"Cannot run program \"(?P<name>[^\"]*)\"|java\.io\.IOException: error=2.*\"(?P<other>[^\"]*)\""),
        RefusedError,
        "{host} cannot run the Python {name}.",
        f"Set PYSPARK_PYTHON to a Python with rmqstore that is there on every host; {DOCUMENT} shows how.",
    ),
    _Known(
        re.compile(r"PYTHON_VERSION_MISMATCH\].*?different version: (?P<name>[\d.]+) than that in driver: (?P<other>[\d.]+)", re.DOTALL),
        RefusedError,
        "{host} has Python {name}, and this command runs with {other}.",
        "Set PYSPARK_PYTHON to the same minor version of Python on every host.",
    ),
    _Known(
        re.compile(r"Total size of serialized results of (?P<name>\d+) tasks \((?P<other>[^)]*)\) is bigger than"),
        RmqstoreError,
        "The results of {name} tasks have {other}, more than Spark accepts here.",
        "Allow more: --spark-conf spark.driver.maxResultSize=8g --spark-conf spark.driver.memory=8g.",
    ),
    _Known(
        re.compile(r"SparkContext has been shutdown|stopped SparkContext|All masters are unresponsive"),
        RefusedError,
        "The cluster ended the application, or its master cannot be reached.",
        "Check --master, and look into the log of the master; the log of Spark above may have the reason.",
    ),
    _Known(
        re.compile(r"No space left on device|ENOSPC"),
        RmqstoreError,
        "{host} has no space left on a disk.",
        "Free some, or name other directories: spark.local.dir for Spark, TMPDIR for the executors.",
    ),
    _Known(
        re.compile(r"OutOfMemoryError|Python worker exited unexpectedly|MemoryError|OOMKilled|exit(?:ed)? (?:code|status)[ :]*137"),
        RmqstoreError,
        "{host} has not enough memory for its tasks, or a process there was killed.",
        "Give Spark more memory: spark.executor.memory and spark.executor.memoryOverhead on a cluster, spark.driver.memory on this host.",
    ),
    _Known(
        re.compile(r"ExecutorLostFailure|executor lost|Remote RPC client disassociated|Worker lost"),
        RmqstoreError,
        "{host} was lost several times in a row.",
        "Look into the log of that executor for the reason, mostly memory or the host itself.",
    ),
    _Known(
        re.compile(r"Permission denied: '?(?P<name>[^'\n]+)'?"),
        RefusedError,
        "{host} has no permission for {name}.",
        "Run executors as a user who may read the store and write the output.",
    ),
)
_TASK = re.compile(r"Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) \((?P<host>[^\s)]+)(?: executor (?P<executor>[^\s)]+))?\)")
_EXCEPTION_OF_PYTHON = re.compile(r"^(?:\w+\.)*(?P<kind>\w*(?:Error|Exception)): (?P<text>.+)$", re.MULTILINE)
_PREFACE = re.compile(r"^An error occurred while calling \S+\s*\n?:?\s*")
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (.+)$", re.MULTILINE)
_CLASS = re.compile(r"^(?:[a-z]\w*\.)+\w+: ")


class SourceError(Exception):
    """An RmqstoreError in words that survive the way through Spark."""

    def __init__(self, error: RmqstoreError) -> None:
        super().__init__(f"{type(error).__name__}: {error.message} -> {error.hint}".replace("\n", " "))

    @staticmethod
    def original(text: str) -> RmqstoreError | None:
        """Return the error that a text of Spark comes from; None if it comes from none."""
        found = re.search(rf"\b{SourceError.__name__}: (\w+): (.+?) -> (.+)", text)
        return getattr(errors, found[1], RmqstoreError)(found[2], found[3].strip()) if found else None


def host_in(text: str) -> str:
    """Return the host of the task that failed, for the beginning of a sentence."""
    found = _TASK.search(text)
    if found is None or found["executor"] in (None, "driver"):
        return "This host"
    return f"Host {found['host']}"


def java_ended(error: Exception) -> RmqstoreError | None:
    """Return the error to report if `error` means that Java is gone, maybe killed by the system for its memory; else None."""
    if isinstance(error, Py4JJavaError) or not isinstance(error, OF_JAVA):
        return None
    return RmqstoreError(
        "The Java process of Spark ended before the work was done.",
        "Give it more memory (--spark-conf spark.driver.memory=4g), or use --engine local.",
    )


def recognized(text: str) -> RmqstoreError | None:
    """Return the error for a text of Spark whose cause is known, else None."""
    for known in _KNOWN:
        found = known.words.search(text)
        if found is not None:
            groups = {name: value or "" for name, value in found.groupdict().items()}
            name = groups.get("name") or groups.get("other", "")
            words = {"host": host_in(text), "name": name, "other": groups.get("other", "")}
            return known.kind(known.message.format(**words), known.hint)
    return None


def translated(error: Exception) -> RmqstoreError:
    """Return an error of a job: what is known of it, else the last exception of the Python of a task, or the first line of Java."""
    ended = java_ended(error)
    if ended is not None:
        return ended
    text = str(error)
    known = recognized(text)
    if known is not None:
        return known
    raised = _EXCEPTION_OF_PYTHON.findall(text)
    if raised:
        kind, said = raised[-1]
        cause = f"{kind}: {said}".rstrip(".")
    else:
        cause = first_line(text) or type(error).__name__
    place = host_in(text)
    where = "" if place == "This host" else f" on {place[0].lower()}{place[1:]}"
    return RmqstoreError(f"A task of Spark failed{where}: {cause}.", "Read the log of that executor, or use --engine local.")


def with_cause(text: str) -> str:
    """Return the first line that says something, and the first cause that Java names: some clients say only that an error occurred."""
    cause = _CAUSE.search(text)
    return first_line(text) + (f" ({cause[1].strip()})" if cause else "")


def first_line(text: str) -> str:
    """Return the first line that says something: without the call of Java and the class of the exception."""
    lines = [line.strip() for line in _PREFACE.sub("", text.strip()).splitlines()]
    said = next((line.removeprefix(": ") for line in lines if line), "")
    return _CLASS.sub("", said).rstrip(".")
