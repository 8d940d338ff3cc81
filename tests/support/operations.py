"""Primitive changes to a store: what a damage is made of. Paths are relative to the store root."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Op:
    """One change. Changes to a file that is gone do nothing, so that damages can be combined."""

    path: str

    def apply(self, root: Path) -> None:
        target = root / self.path
        if target.is_file():
            self.change(target)

    def change(self, target: Path) -> None:
        raise NotImplementedError

    @property
    def span(self) -> tuple[int, int] | None:
        """First byte and length of what is overwritten, None where the operation is about a whole file."""
        return None


@dataclass(frozen=True, slots=True)
class Write(Op):
    """Overwrites bytes from `position` on."""

    position: int
    data: bytes

    def change(self, target: Path) -> None:
        with target.open("r+b") as stream:
            stream.seek(self.position)
            stream.write(self.data)

    @property
    def span(self) -> tuple[int, int]:
        return self.position, len(self.data)


@dataclass(frozen=True, slots=True)
class Flip(Op):
    """Inverts the bits of `mask` in one byte."""

    position: int
    mask: int

    def change(self, target: Path) -> None:
        with target.open("r+b") as stream:
            stream.seek(self.position)
            (byte,) = stream.read(1)
            stream.seek(self.position)
            stream.write(bytes([byte ^ self.mask]))

    @property
    def span(self) -> tuple[int, int]:
        return self.position, 1


@dataclass(frozen=True, slots=True)
class Zero(Op):
    """Zeros from `position` on."""

    position: int
    length: int

    def change(self, target: Path) -> None:
        Write(self.path, self.position, bytes(self.length)).change(target)

    @property
    def span(self) -> tuple[int, int]:
        return self.position, self.length


@dataclass(frozen=True, slots=True)
class Noise(Op):
    """Random bytes that depend on `seed` alone."""

    position: int
    length: int
    seed: int = 7

    def change(self, target: Path) -> None:
        Write(self.path, self.position, random.Random(self.seed).randbytes(self.length)).change(target)

    @property
    def span(self) -> tuple[int, int]:
        return self.position, self.length


@dataclass(frozen=True, slots=True)
class Move(Op):
    """Copies bytes of one place in the store over another."""

    position: int
    source: str
    source_position: int
    length: int

    def apply(self, root: Path) -> None:
        target, source = root / self.path, root / self.source
        if target.is_file() and source.is_file():
            with source.open("rb") as stream:
                stream.seek(self.source_position)
                Write(self.path, self.position, stream.read(self.length)).change(target)

    @property
    def span(self) -> tuple[int, int]:
        return self.position, self.length


@dataclass(frozen=True, slots=True)
class Resize(Op):
    """Cuts or extends a file."""

    length: int

    def change(self, target: Path) -> None:
        with target.open("r+b") as stream:
            stream.truncate(self.length)


@dataclass(frozen=True, slots=True)
class Create(Op):
    """A new file: `data`, then zeros up to `length`."""

    data: bytes = b""
    length: int = 0

    def apply(self, root: Path) -> None:
        target = root / self.path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as stream:
            stream.write(self.data)
            stream.truncate(max(self.length, len(self.data)))


@dataclass(frozen=True, slots=True)
class Copy(Op):
    """A copy of the file `source`."""

    source: str

    def apply(self, root: Path) -> None:
        if (root / self.source).is_file():
            target = root / self.path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / self.source, target)


@dataclass(frozen=True, slots=True)
class Delete(Op):
    """A file or a whole directory goes."""

    def apply(self, root: Path) -> None:
        target = root / self.path
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class MakeDirectory(Op):
    """An empty directory."""

    def apply(self, root: Path) -> None:
        (root / self.path).mkdir(parents=True, exist_ok=True)


def apply(operations: Iterable[Op], root: Path) -> None:
    """Performs the operations in order."""
    for operation in operations:
        operation.apply(root)
