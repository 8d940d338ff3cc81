"""Files that the tasks of a rebuild leave for other tasks and for the command.

They are in the staging area of the plan, which hosts have to share, or in a directory of their own at a path or URI that the user names:
then tasks write on their own disk first, and the command copies what was built to the staging area.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from rmqstore.errors import UsageError
from rmqstore.pipeline.fetching import local_disk
from rmqstore.pipeline.filesystems import FAILURES, is_remote, opened, reading
from rmqstore.pipeline.job import require_shared
from rmqstore.pipeline.sending import has_directories, send, transferring, writing_object
from rmqstore.repair.derived.requests import Made
from rmqstore.repair.plan.staging import StagedFile, Staging
from rmqstore.store.root import Store
from rmqstore.store.window import descriptor_extents

_BLOCK = 4 << 20


class Left(NamedTuple):
    """A built file of `length` bytes: the data of its `extents`, begin and end, follow each other at `address` from `position` on."""

    address: str
    position: int
    extents: tuple[tuple[int, int], ...]
    length: int


class Exchange(Protocol):
    """The place of such files. It travels to the tasks."""

    def require(self) -> None:
        """Raise RefusedError with the name of this host if the place is not there."""

    def scratch(self) -> AbstractContextManager[Path]:
        """Return a directory for files of one task; those that were left can be opened after the block."""

    def leave(self, file: Path) -> str:
        """Leave a complete file, and return its address. Raises NotWrittenError, OSError."""

    def open(self, address: str) -> AbstractContextManager[BinaryIO]:
        """Open a file that was left. Raises UnreadableError, OSError."""

    def leave_built(self, files: Made) -> Mapping[str, Left]:
        """Leave built files, by their paths in the store. Raises NotWrittenError, OSError."""

    def adopt(self, files: Mapping[str, Left], staging: Staging) -> Made:
        """Bring files of one task into the staging area. Raises UnreadableError, OSError."""


@dataclass(frozen=True, slots=True)
class InStaging:
    """A directory in the staging area, for tasks that see the same files; `shown` is named where one does not."""

    directory: str
    shown: str

    def require(self) -> None:
        """Raise RefusedError with the name of this host if the directory is not there."""
        require_shared(Path(self.directory).is_dir(), self.shown, ", or name another one with --work-dir")

    def scratch(self) -> AbstractContextManager[Path]:
        """Return the directory."""
        return nullcontext(Path(self.directory))

    def leave(self, file: Path) -> str:
        """Return the path of a file, which is in the directory already."""
        return str(file)

    def open(self, address: str) -> AbstractContextManager[BinaryIO]:
        """Open a file. Raises OSError."""
        return Path(address).open("rb")

    def leave_built(self, files: Made) -> Mapping[str, Left]:
        """Return where the files are: in the directory already."""
        return {path: Left(str(staged.path), 0, ((0, staged.length),), staged.length) for path, staged in files.items()}

    def adopt(self, files: Mapping[str, Left], staging: Staging) -> Made:
        """Move the files. Raises OSError."""
        return {path: staging.adopt(StagedFile(Path(left.address), "", left.length)) for path, left in files.items()}


@dataclass(frozen=True, slots=True)
class WorkDirectory:
    """A directory of this command below the one that the user named."""

    uri: str

    @classmethod
    @contextmanager
    def below(cls, path_or_uri: str) -> Iterator[WorkDirectory]:
        """Make one, and remove it with all that is in it. Raises NotWrittenError, UsageError."""
        address, question, query = _uri_of(path_or_uri).partition("?")
        work = cls(f"{address.rstrip('/')}/rmqstore-{uuid.uuid4().hex}{question}{query}")
        with transferring(path_or_uri):
            system, base = opened(work.uri)
            if has_directories(system):
                system.create_dir(base, recursive=True)
        try:
            yield work
        finally:
            with suppress(*FAILURES):
                system.delete_dir(base)

    def require(self) -> None:
        """Raise RefusedError with the name of this host if the directory is not there."""
        from pyarrow.fs import FileType

        with reading(self.uri):
            system, base = opened(self.uri)
            exists = not has_directories(system) or system.get_file_info(base).type == FileType.Directory
        require_shared(exists, self.uri)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield a temporary directory of this host."""
        with tempfile.TemporaryDirectory(prefix="rmqstore-", dir=local_disk()) as directory:
            yield Path(directory)

    def leave(self, file: Path) -> str:
        """Copy a file there, and return its name. Raises NotWrittenError, UsageError."""
        name = uuid.uuid4().hex
        with transferring(self.uri):
            system, base = opened(self.uri)
            send(file, system, f"{base}/{name}")
        return name

    def open(self, address: str) -> AbstractContextManager[BinaryIO]:
        """Open a file by its name. Raises UnreadableError."""
        with reading(self.uri):
            system, base = opened(self.uri)
            stream: AbstractContextManager[BinaryIO] = system.open_input_file(f"{base}/{address}")
        return stream

    def leave_built(self, files: Made) -> Mapping[str, Left]:
        """Copy the data of all files into one. Raises NotWrittenError, UsageError, OSError."""
        left: dict[str, Left] = {}
        if not files:
            return left
        name = uuid.uuid4().hex
        with transferring(self.uri):
            system, base = opened(self.uri)
            with writing_object(system, f"{base}/{name}") as stream:
                position = 0
                for path, staged in files.items():
                    extents = _copied(staged, stream)
                    left[path] = Left(name, position, extents, staged.length)
                    position += sum(end - begin for begin, end in extents)
        return left

    def adopt(self, files: Mapping[str, Left], staging: Staging) -> Made:
        """Copy the files. Raises UnreadableError, OSError."""
        made: Made = {}
        if not files:
            return made
        [address] = {left.address for left in files.values()}
        with self.open(address) as stream:
            for path, left in sorted(files.items(), key=lambda one: one[1].position):
                stream.seek(left.position)
                staging.open(path, left.length)
                for begin, end in left.extents:
                    _fill(staging, path, stream, begin, end)
                made[path] = staging.close(path)
        return made


def require_outside(path_or_uri: str, store: Store) -> None:
    """Raise UsageError for a work directory in the root of a store, or in a directory of its log that is outside of the root.

    Raises NotWrittenError for a URI whose file system cannot be opened.
    """
    with transferring(path_or_uri):
        system, path = opened(_uri_of(path_or_uri))
    if system.type_name != "local":
        return
    place = Path(path).resolve()
    parts = {store.root, *(file.path.parent for file in store.message_log.files)}
    if any(place.is_relative_to(part.resolve()) for part in parts):
        raise UsageError(f"{path_or_uri} is inside the store.", "Name a directory outside of it: a store holds what brokers wrote.")


def _uri_of(path_or_uri: str) -> str:
    return path_or_uri if is_remote(path_or_uri) else Path(path_or_uri).absolute().as_uri()


def _copied(staged: StagedFile, stream: BinaryIO) -> tuple[tuple[int, int], ...]:
    """Write the data of a file to a stream, without its holes, and return where it is in the file."""
    with staged.path.open("rb") as file:
        extents = tuple(descriptor_extents(file.fileno(), staged.path, staged.length))
        for begin, end in extents:
            for at in range(begin, end, _BLOCK):
                stream.write(os.pread(file.fileno(), min(_BLOCK, end - at), at))
    return extents


def _fill(staging: Staging, path: str, stream: BinaryIO, begin: int, end: int) -> None:
    """Copy the next bytes of a stream to [begin, end) of a file. Raises OSError (also where the stream ends before)."""
    import numpy as np

    for at in range(begin, end, _BLOCK):
        data = stream.read(min(_BLOCK, end - at))
        if len(data) != min(_BLOCK, end - at):
            raise OSError(f"a file of the work directory ended before the bytes of {path}")
        staging.write(path, at, np.frombuffer(data, np.uint8))


def exchange_in(staging: Staging, shown: str, work_directory: str | None) -> AbstractContextManager[Exchange]:
    """Return the place: the work directory if there is one, else the staging area, as what the store at `shown` has."""
    return _in_staging(staging, shown) if work_directory is None else WorkDirectory.below(work_directory)


@contextmanager
def _in_staging(staging: Staging, shown: str) -> Iterator[Exchange]:
    with staging.attempts() as directory:
        yield InStaging(str(directory), shown)
