"""The real store code of one release, in a JVM that takes jobs as lines and answers each with a line."""

from __future__ import annotations

import itertools
import json
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.broker.toolchain import java_command, prepared

Answer = dict[str, Any]


class JvmDied(Exception):
    """The JVM ended before it answered."""


class Harness:
    """`ask` may be called by as many threads at a time as there are `jobs`: a job mostly sleeps while the store starts and stops."""

    def __init__(self, release: str, jobs: int) -> None:
        self.release = release
        prepared(release)  # what may fail comes first
        self._transient = tempfile.TemporaryDirectory(prefix="rmqstore-java-")
        self._process = subprocess.Popen(
            java_command(release, Path(self._transient.name), "batch", "--jobs", str(jobs)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        self._numbers = itertools.count()
        self._open: dict[int, Future[Answer]] = {}
        self._lock = threading.Lock()
        self._ended = False
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if error is not None:
            self._process.kill()
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._reader.join()
        self._process.stdout.close()
        self._process.wait()
        self._transient.cleanup()

    def recover(
        self, root: Path, settings: Mapping[str, Any], topics: Mapping[str, Any], *, queues: Sequence[str] = (), alone: bool = False
    ) -> Answer:
        """Load, start and stop the store at `root`, in place. Settings that the release does not have are left out.

        `queues`: names of those in RocksDB, which are not seen otherwise. `alone`: in a JVM of its own, which may die.
        """
        job = {
            "command": "recover",
            "dir": str(root),
            "profile": "default",
            "set": {f"?{key}": value for key, value in settings.items()},
            "topics": topics,
            "queues": list(queues),
            "fork": alone,
        }
        return self.ask(job)

    def ask(self, job: Mapping[str, Any]) -> Answer:
        """The answer to one job; `failed` in it says that the job could not be done. Raises JvmDied."""
        answer: Future[Answer] = Future()
        with self._lock:
            if self._ended:
                raise JvmDied(self.release)
            number = next(self._numbers)
            self._open[number] = answer
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(json.dumps({**job, "id": number}) + "\n")
                self._process.stdin.flush()
            except BrokenPipeError as error:
                raise JvmDied(self.release) from error
        return answer.result()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):  # a native crash writes its report here, too
                answer = json.loads(line)
                self._open.pop(answer.pop("id")).set_result(answer)
        with self._lock:
            self._ended = True
        for left in self._open.values():
            left.set_exception(JvmDied(self.release))
