"""Primitive changes to a store: what a damage is made of. Paths are relative to the store root."""

from __future__ import annotations

import os
import random
import shutil
import socket
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
class WriteField(Write):
    """Overwrites a field of the record whose PHYSICALOFFSET is at `marked`, unless an earlier change put other bytes there."""

    marked: int
    physical_offset: int

    def change(self, target: Path) -> None:
        with target.open("rb") as stream:
            stream.seek(self.marked)
            if stream.read(8) != self.physical_offset.to_bytes(8, "big"):
                return
        Write.change(self, target)


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
        if not target.is_file():
            Delete(self.path).apply(root)
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
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class MakeDirectory(Op):
    """An empty directory."""

    def apply(self, root: Path) -> None:
        (root / self.path).mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True, slots=True)
class Exchange(Op):
    """Two ranges of equal length in files of the store change places."""

    position: int
    other: str
    other_position: int
    length: int

    def apply(self, root: Path) -> None:
        first, second = root / self.path, root / self.other
        if first.is_file() and second.is_file():
            of_first, of_second = (
                path.read_bytes()[position : position + self.length]
                for path, position in ((first, self.position), (second, self.other_position))
            )
            Write(self.path, self.position, of_second).change(first)
            Write(self.other, self.other_position, of_first).change(second)


@dataclass(frozen=True, slots=True)
class CutOut(Op):
    """Bytes are lost, what follows them moves down, and the file keeps its length with zeros at its end."""

    position: int
    length: int

    def change(self, target: Path) -> None:
        data = target.read_bytes()
        kept = data[: self.position] + data[self.position + self.length :]
        Write(self.path, 0, kept.ljust(len(data), b"\0")).change(target)


@dataclass(frozen=True, slots=True)
class PutIn(Op):
    """Foreign bytes appear, what follows them moves up, and the file keeps its length: its last bytes are lost."""

    position: int
    data: bytes

    def change(self, target: Path) -> None:
        data = target.read_bytes()
        Write(self.path, 0, (data[: self.position] + self.data + data[self.position :])[: len(data)]).change(target)


@dataclass(frozen=True, slots=True)
class Rename(Op):
    """A file or directory gets another name; what had that name is gone."""

    to: str

    def apply(self, root: Path) -> None:
        source, target = root / self.path, root / self.to
        if source.exists() and source != target:
            Delete(self.to).apply(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)


@dataclass(frozen=True, slots=True)
class Swap(Op):
    """Two files or directories exchange their names."""

    other: str

    def apply(self, root: Path) -> None:
        first, second = root / self.path, root / self.other
        if first.exists() and second.exists():
            aside = first.with_name(f"{first.name}.aside")
            first.rename(aside)
            second.rename(first)
            aside.rename(second)


@dataclass(frozen=True, slots=True)
class CopyTree(Op):
    """A copy of the directory `source` in the place of whatever is at the path."""

    source: str

    def apply(self, root: Path) -> None:
        if (root / self.source).is_dir():
            Delete(self.path).apply(root)
            shutil.copytree(root / self.source, root / self.path, symlinks=True)


@dataclass(frozen=True, slots=True)
class Touch(Op):
    """Sets the modification time, in nanoseconds since the epoch."""

    mtime_ns: int

    def change(self, target: Path) -> None:
        os.utime(target, ns=(self.mtime_ns, self.mtime_ns))


SPECIAL_FILES = ("fifo", "socket", "dangling-link", "self-link", "directory", "file-in-directory")


@dataclass(frozen=True, slots=True)
class Special(Op):
    """Something that is no regular file, of one of the kinds SPECIAL_FILES, in the place of whatever is at the path."""

    kind: str

    def apply(self, root: Path) -> None:
        target = root / self.path
        Delete(self.path).apply(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        match self.kind:
            case "fifo":
                os.mkfifo(target)
            case "socket":
                _socket(target)
            case "dangling-link":
                target.symlink_to("no-such-file")
            case "self-link":
                target.symlink_to(target.name)
            case "directory":
                target.mkdir()
            case "file-in-directory":
                target.mkdir()
                (target / target.name).write_bytes(b"foreign")
            case unknown:
                raise ValueError(f"unknown kind of file {unknown}")


def _socket(path: Path) -> None:
    """The name of a socket may only be short, so it is bound by the descriptor of its directory."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)


def apply(operations: Iterable[Op], root: Path) -> None:
    """Performs the operations in order."""
    for operation in operations:
        operation.apply(root)
