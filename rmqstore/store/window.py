"""Windows: a piece of a file mapped read-only, or a few bytes of it, without leaving a trace on the file."""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rmqstore.errors import GoneError, StoreChangedError, UnreadableError
from rmqstore.store import absent, pacing
from rmqstore.store.mapped import MappedFile, unreadable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_O_NOATIME = getattr(os, "O_NOATIME", 0)


_redirected: dict[str, Path] = {}


@contextmanager
def redirected(paths: Mapping[str, Path]) -> Iterator[None]:
    """Read other files in the place of these, by path, until the end of the context, as for a planned store."""
    _redirected.update(paths)
    try:
        yield
    finally:
        for path in paths:
            del _redirected[path]


def source_of(path: Path) -> Path:
    """Return the file that holds the bytes of `path`: itself, unless its reads are redirected."""
    return _redirected.get(str(path), path) if _redirected else path


class Window:
    """A mapped range of one file. `array` is a read-only uint8 view of exactly the requested range; it ends with the window."""

    def __init__(self, mapping: mmap.mmap | None, array: NDArray[np.uint8], release: Callable[[], None] | None = None) -> None:
        """`release` is called once after the range was unmapped."""
        self._mapping = mapping
        self.array = array
        self._release = release

    def close(self) -> None:
        """Unmap. Views that are still held keep the memory mapped until they are dropped."""
        import numpy as np

        mapping, self._mapping = self._mapping, None
        self.array = np.frombuffer(b"", dtype=np.uint8)
        if mapping is not None:
            # A BufferError means that a slice of the array is still in use: unmapping it would crash the process.
            with suppress(BufferError):
                mapping.close()
        release, self._release = self._release, None
        if release is not None:
            release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def map_window(file: MappedFile, position: int, length: int) -> Window:
    """Map `length` bytes of `file` from byte `position` inside the file; only these pages, shared and read-only.

    Raises UnreadableError if the range was never inside the file or it cannot be read, StoreChangedError if the file is shorter
    than it was when it was listed. A file that shrinks later is the reader's risk: touching lost pages raises SIGBUS.
    """
    import numpy as np

    _check_range(file, position, length)
    if length == 0:
        return Window(None, np.frombuffer(b"", dtype=np.uint8))
    aligned = position - position % mmap.ALLOCATIONGRANULARITY
    lead = position - aligned
    absent.fill(file.location, position, position + length)
    with open_read_only(file.location) as descriptor:
        _check_length(file, os.fstat(descriptor).st_size, position, length)
        try:
            mapping = mmap.mmap(descriptor, lead + length, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, offset=aligned)
        except OSError as error:
            raise unreadable(file.path, error) from error
        release = pacing.before(descriptor, position, length)
    return Window(mapping, np.frombuffer(mapping, dtype=np.uint8, count=length, offset=lead), release)


def read_at(file: MappedFile | Path, position: int, length: int) -> bytes:
    """Return exactly `length` bytes from byte `position` inside the file, without mapping. Raises UnreadableError, StoreChangedError."""
    path = file if isinstance(file, Path) else file.location
    if isinstance(file, MappedFile):
        _check_range(file, position, length)
    with open_read_only(path) as descriptor:
        return read_descriptor(descriptor, path, position, length)


def read_descriptor(descriptor: int, path: Path | str, position: int, length: int) -> bytes:
    """Read as `read_at`, from a file that `open_read_only` opened. Raises StoreChangedError if the file ends before."""
    absent.fill(path, position, position + length)
    pieces: list[bytes] = []
    wanted = length
    while wanted > 0:
        try:
            piece = os.pread(descriptor, wanted, position + length - wanted)
        except OSError as error:
            raise unreadable(path, error) from error
        if not piece:
            raise _shrunk(path, position + length - wanted, position + length)
        pieces.append(piece)
        wanted -= len(piece)
    return b"".join(pieces)


def read_into(file: MappedFile, position: int, target: NDArray[np.uint8]) -> None:
    """Fill `target` with the bytes from byte `position` inside the file. Raises UnreadableError, StoreChangedError.

    Reused memory is the fastest way through a file: no page has to be mapped or cleared for it.
    """
    _check_range(file, position, target.size)
    descriptor = _opened(file.location)
    try:
        read_descriptor_into(descriptor, file.location, position, target)
    finally:
        os.close(descriptor)


def read_descriptor_into(descriptor: int, path: Path | str, position: int, target: NDArray[np.uint8]) -> None:
    """Read as `read_into`, from a file that `open_read_only` opened."""
    absent.fill(path, position, position + target.size)
    release = pacing.before(descriptor, position, target.size)
    try:
        done = 0
        while done < target.size:
            try:
                count = os.preadv(descriptor, [target[done:].data], position + done)
            except OSError as error:
                raise unreadable(path, error) from error
            if not count:
                raise _shrunk(path, position + done, position + target.size)
            done += count
    finally:
        if release is not None:
            release()


def _shrunk(path: Path | str, end: int, wanted: int) -> StoreChangedError:
    return StoreChangedError(
        f"{path} ends at byte {end}, before byte {wanted} that should be read.",
        "The file shrank while it was read; stop the broker or work on a snapshot, then try again.",
    )


def read_whole(path: Path, limit: int) -> bytes:
    """Return the first `limit` bytes of a small file, fewer if it is shorter. Raises UnreadableError."""
    with open_read_only(path) as descriptor:
        return read_descriptor(descriptor, path, 0, min(limit, os.fstat(descriptor).st_size))


def read_if_file(path: Path, limit: int) -> bytes | None:
    """Return the first `limit` bytes of a small file, None if there is no file or it was just removed. Raises UnreadableError."""
    try:
        return read_whole(path, limit) if path.is_file() else None
    except GoneError:
        return None


@contextmanager
def open_read_only(path: Path | str) -> Iterator[int]:
    """Yield a descriptor of a regular file that does not change its access time if the system allows it. Raises UnreadableError."""
    descriptor = _opened(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _opened(path: Path | str) -> int:
    """Return what `open_read_only` yields, for the many reads of small ranges: its context takes longer than the read."""
    if _redirected:
        path = _redirected.get(str(path), path)
    try:
        # Without O_NONBLOCK a named pipe that replaced a file would block forever.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            descriptor = os.open(path, flags | _O_NOATIME)
        except PermissionError:
            # O_NOATIME is for the owner only; with atime updates the content and mtime are still unchanged.
            descriptor = os.open(path, flags)
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
            raise UnreadableError(f"{path} is {kind}, where a file should be.", "Move it away or give another path.")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def data_extents(file: MappedFile) -> Iterator[tuple[int, int]]:
    """Yield ranges [begin, end) in bytes inside the file that hold data; between them are holes, which read as zeros.

    The whole file is one range if the file system does not report holes. Raises UnreadableError.
    """
    with open_read_only(file.location) as descriptor:
        yield from descriptor_extents(descriptor, file.location, file.length)


def descriptor_extents(descriptor: int, path: Path | str, length: int) -> Iterator[tuple[int, int]]:
    """Yield ranges as `data_extents`, of the first `length` bytes of a file that is open."""
    length = min(length, os.fstat(descriptor).st_size)
    seek_data: Any = getattr(os, "SEEK_DATA", None)
    seek_hole: Any = getattr(os, "SEEK_HOLE", None)
    position = 0
    while position < length:
        if seek_data is None or seek_hole is None or absent.is_absent(path):
            yield position, length
            return
        try:
            begin = os.lseek(descriptor, position, seek_data)
            end = min(os.lseek(descriptor, begin, seek_hole), length)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole up to the end
                return
            if error.errno == errno.EINVAL:  # the file system knows no holes
                yield position, length
                return
            raise unreadable(path, error) from error
        if begin >= length:
            return
        yield begin, end
        position = end


def _check_range(file: MappedFile, position: int, length: int) -> None:
    if position < 0 or length < 0 or position + length > file.length:
        raise UnreadableError(
            f"{file.path} has {file.length} bytes, {length} bytes from byte {position} are outside of it.",
            "The range comes from damaged data or from a wrong option.",
        )


def _check_length(file: MappedFile, size: int, position: int, length: int) -> None:
    if size < position + length:
        raise StoreChangedError(
            f"{file.path} had {file.length} bytes and has {size} now.",
            "The file shrank while it was read; stop the broker or work on a snapshot, then try again.",
        )
