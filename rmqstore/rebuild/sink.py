"""The destination of rebuilt files: the caller of a rebuild passes a sink and decides what the files are made of."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


class Sink(Protocol):
    """Files by their path below the root of the store, `/` between the parts: mapped ones for random access, and others."""

    def open(self, relative_path: str, length: int) -> Bytes:
        """Return the `length` bytes of a new file as a writable array of zeros."""
        ...

    def create(self, relative_path: str, length: int) -> None:
        """Make a new file of `length` zeros. It is not kept open, so there may be any number."""
        ...

    def write(self, relative_path: str, position: int, data: Bytes) -> None:
        """Write bytes to a file that is not closed."""
        ...

    def read(self, relative_path: str, position: int, length: int) -> bytes:
        """Return bytes of a file that was made by `create` and is not closed."""
        ...

    def discard(self, relative_path: str) -> None:
        """Remove a file that was made by `create` and is not closed."""
        ...

    def close(self, relative_path: str) -> object:
        """Complete the file: nothing is written to it any more."""
        ...


class MemorySink:
    """Keeps every file in memory."""

    def __init__(self) -> None:
        self.files: dict[str, Bytes] = {}
        self.open_paths: set[str] = set()

    def open(self, relative_path: str, length: int) -> Bytes:
        """Open a file; see Sink. Raises ValueError for a path that exists."""
        self.create(relative_path, length)
        return self.files[relative_path]

    def create(self, relative_path: str, length: int) -> None:
        """Create a file; see Sink. Raises ValueError for a path that exists."""
        if relative_path in self.files:
            raise ValueError(f"{relative_path} exists")
        self.files[relative_path] = np.zeros(length, np.uint8)
        self.open_paths.add(relative_path)

    def write(self, relative_path: str, position: int, data: Bytes) -> None:
        """Write to a file; see Sink."""
        self.files[relative_path][position : position + data.size] = data

    def read(self, relative_path: str, position: int, length: int) -> bytes:
        """Read a file; see Sink."""
        return self.files[relative_path][position : position + length].tobytes()

    def discard(self, relative_path: str) -> None:
        """Discard a file; see Sink."""
        self.open_paths.remove(relative_path)
        del self.files[relative_path]

    def close(self, relative_path: str) -> None:
        """Close a file; see Sink."""
        self.open_paths.remove(relative_path)
