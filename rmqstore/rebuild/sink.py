"""The destination of rebuilt files: the caller of a rebuild passes a sink and decides what the files are made of."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


class Sink(Protocol):
    """Files by their path below the root of the store, `/` between the parts."""

    def open(self, relative_path: str, length: int) -> Bytes:
        """Return the `length` bytes of a file as a writable array, zeros in a new file.

        A path may be opened again after it was closed; its bytes are then as they were left.
        """
        ...

    def write(self, relative_path: str, position: int, data: Bytes) -> None:
        """Write bytes to an open file, for sequential writers; the array is for random access."""
        ...

    def close(self, relative_path: str) -> object:
        """Close the file: its array is not used any more."""
        ...


class MemorySink:
    """Keeps every file in memory."""

    def __init__(self) -> None:
        self.files: dict[str, Bytes] = {}
        self.open_paths: set[str] = set()

    def open(self, relative_path: str, length: int) -> Bytes:
        """Open a file; see Sink. Raises ValueError for a path that is open, or was opened with another length."""
        array = self.files.setdefault(relative_path, np.zeros(length, np.uint8))
        if relative_path in self.open_paths or array.size != length:
            raise ValueError(f"{relative_path} is open, or has {array.size} bytes and not {length}")
        self.open_paths.add(relative_path)
        return array

    def write(self, relative_path: str, position: int, data: Bytes) -> None:
        """Write to a file; see Sink."""
        self.files[relative_path][position : position + data.size] = data

    def close(self, relative_path: str) -> None:
        """Close a file; see Sink."""
        self.open_paths.remove(relative_path)
