"""A process of its own that does one thing again and again: what hangs or dies in it costs one answer, not the run."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

Argument = TypeVar("Argument")
Answer = TypeVar("Answer")
_GRACE = 5.0
_MEMORY = Path("/dev/shm")


class NoAnswer(Exception):
    """The call took too long, or its process died; the text says which, and where it was."""


class Worker(Generic[Argument, Answer]):
    """Calls `function`, which has to be importable, in another process. After a call without answer a new process takes its place."""

    def __init__(self, function: Callable[[Argument], Answer]) -> None:
        self._function = function
        self._process: Any = None
        self._pipe: Any = None
        self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._end()

    def call(self, argument: Argument, seconds: float) -> Answer:
        """The answer; an exception of the function is raised here. Raises NoAnswer."""
        with NamedTemporaryFile("r", prefix="rmqstore-stacks-") as stacks:
            self._pipe.send((argument, seconds, stacks.name))
            try:
                if not self._pipe.poll(seconds + _GRACE):
                    raise NoAnswer(f"no answer after {seconds:.0f} s\n{stacks.read()}")
                kind, answer = self._pipe.recv()
            except EOFError as error:
                self._process.join()
                code = self._process.exitcode
                self._restart()
                raise NoAnswer(f"the process died: exit code {code}\n{stacks.read()}") from error
            except NoAnswer:
                self._restart()
                raise
        if kind == "raised":
            raise answer
        return answer  # type: ignore[no-any-return]

    def _begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(self._function, other), daemon=True)
        self._process.start()
        other.close()

    def _restart(self) -> None:
        self._end()
        self._begin()

    def _end(self) -> None:
        self._pipe.close()
        self._process.kill()
        self._process.join()
        self._process.close()


def in_memory() -> Path | None:
    """A directory in memory for stores that come and go, None for the usual one."""
    return _MEMORY if os.access(_MEMORY, os.W_OK) else None


def _serve(function: Callable[[Any], Any], pipe: Connection) -> None:
    while True:
        try:
            argument, seconds, stacks = pipe.recv()
        except EOFError:
            return
        with Path(stacks).open("w") as stream:
            faulthandler.enable(stream)
            faulthandler.dump_traceback_later(seconds, file=stream)
            try:
                answer = "returned", function(argument)
            except Exception as error:
                answer = "raised", error
            faulthandler.cancel_dump_traceback_later()
            faulthandler.disable()
        pipe.send(answer)
