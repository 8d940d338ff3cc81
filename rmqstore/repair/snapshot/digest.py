"""The SHA-256 of a file while it is copied, computed by another thread."""

from __future__ import annotations

import hashlib
from collections import deque
from concurrent.futures import Executor, Future

import numpy as np
from numpy.typing import NDArray

PIECE = 512 << 10
"""Bytes that are read, written and added at one time; small enough to stay in the cache of a processor."""
_BUFFERS = 4
_ZEROS = memoryview(bytes(PIECE))


class FileDigest:
    """The SHA-256 of pieces in the order of their positions; what is between them counts as zeros."""

    def __init__(self, pool: Executor) -> None:
        """`pool` has one thread, so that pieces are added in the order in which they were given."""
        self._pool = pool
        self._digest = hashlib.sha256()
        self._position = 0
        self._buffers: deque[NDArray[np.uint8]] = deque()
        self._added: deque[Future[None]] = deque()

    def buffer(self, size: int) -> NDArray[np.uint8]:
        """Return a buffer of `size` bytes, at most PIECE, for the piece that is added next."""
        if len(self._buffers) < _BUFFERS:
            self._buffers.append(np.empty(PIECE, np.uint8))
        else:
            self._added.popleft().result()
            self._buffers.rotate(-1)
        return self._buffers[-1][:size]

    def add(self, at: int, piece: NDArray[np.uint8]) -> None:
        """Add the bytes at a position, which are in the buffer that was returned last."""
        self._added.append(self._pool.submit(self._update, at, piece))

    def finish(self, length: int) -> str:
        """Return the digest of a file of `length` bytes."""
        self._pool.submit(self._zeros, length).result()
        return self._digest.hexdigest()

    def _update(self, at: int, piece: NDArray[np.uint8]) -> None:
        self._zeros(at)
        self._digest.update(piece.data)
        self._position += piece.size

    def _zeros(self, until: int) -> None:
        while self._position < until:
            zeros = _ZEROS[: until - self._position]
            self._digest.update(zeros)
            self._position += len(zeros)
