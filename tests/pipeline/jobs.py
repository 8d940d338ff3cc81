"""Small jobs for the tests of the runners. They live in a module of their own because workers have to import them."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rmqstore.errors import StoreChangedError
from rmqstore.pipeline.job import MapOnly, Packet, Part
from rmqstore.reading.progress import Advance

PARTS = [Part(number, f"part {number}", size) for number, size in enumerate([5, 70, 30, 0, 12])]


@dataclass(frozen=True, slots=True)
class Letters:
    """Every part has all its packets in several results, and packets of one result come from all parts."""

    packets: int = 5

    @property
    def title(self) -> str:
        return "letters"

    @property
    def parts(self) -> Sequence[Part]:
        return PARTS

    @property
    def shuffles(self) -> bool:
        return True

    def map(self, part: Part, advance: Advance) -> Iterator[Packet]:
        advance(part.size)
        for order in reversed(range(self.packets)):
            yield Packet("abc"[order % 3], order, f"{part.number}.{order} ".encode() * (1 + part.size))

    def reduce(self, key: str, packets: Iterator[bytes]) -> bytes:
        return key.encode() + b": " + b"".join(packets)


@dataclass(frozen=True, slots=True)
class Numbers(MapOnly):
    """Two packets per part."""

    @property
    def title(self) -> str:
        return "numbers"

    @property
    def parts(self) -> Sequence[Part]:
        return PARTS

    def map(self, part: Part, advance: Advance) -> Iterator[Packet]:
        advance(part.size)
        yield Packet(part.name, 0, b"first")
        yield Packet(part.name, 1, str(part.number).encode())


class Nothing(Numbers):
    """No part at all."""

    @property
    def parts(self) -> Sequence[Part]:
        return []


@dataclass(frozen=True, slots=True)
class Failing(Numbers):
    """Part 1 goes wrong `times` times.

    `how` is changed (the store did), full (the disk is), killed (the process that does it) or java (the process of Spark is killed).
    """

    how: str
    times: int
    marks: Path

    def map(self, part: Part, advance: Advance) -> Iterator[Packet]:
        yield Packet(part.name, 0, b"first")
        if part.number == 1 and len(list(self.marks.iterdir())) < self.times:
            (self.marks / f"{os.getpid()}-{len(list(self.marks.iterdir()))}").touch()
            if self.how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "java":
                _kill_java()
                time.sleep(60)
            if self.how == "full":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "out")
            raise StoreChangedError("The file changed.", "Try again.")
        yield Packet(part.name, 1, str(part.number).encode())


def _kill_java() -> None:
    """Java is started by the process that started the one which this worker was forked from."""
    command = _status(_status(os.getpid())[1])[1]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _status(int(entry.name)) == ("java", command):
            os.kill(int(entry.name), signal.SIGKILL)


def _status(pid: int) -> tuple[str, int]:
    """Name and parent of a process; none where it has ended."""
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return "", 0
    return name, int(rest.split()[1])
