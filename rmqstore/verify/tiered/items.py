"""Entries of tiered index files by queue: kept in a temporary file, because a compacted file has them in the order of its slots."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from rmqstore.store.mapped import MappedFile

ITEM_DTYPE = np.dtype(
    [
        ("offset", "i8"),  # of the record in the tiered log of its queue
        ("position", "i8"),  # of the entry in its file (bytes)
        ("hash", "i4"),
        ("size", "i4"),  # of the record
        ("file", "i4"),  # row in `ItemStore.files`
    ]
)


class ItemStore:
    """Entries by topic number and queue id. A context manager: the temporary file, 28 bytes per entry, ends with it."""

    def __init__(self) -> None:
        self.files: list[MappedFile] = []
        self._pieces: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        self._spilled = tempfile.TemporaryFile()  # noqa: SIM115  -- closed by __exit__
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._spilled.close()

    def add(self, file: MappedFile, positions: npt.NDArray[np.int64], rows: npt.NDArray[np.void]) -> None:
        """Keep entries of a file, `rows` as its layout declares them. Raises OSError without space for the temporary file."""
        if not self.files or self.files[-1] is not file:
            self.files.append(file)
        order = np.lexsort((rows["offset"], rows["queue_id"], rows["topic_id"]))
        kept = np.empty(rows.size, ITEM_DTYPE)
        kept["offset"], kept["hash"], kept["size"] = rows["offset"][order], rows["key_hash"][order], rows["size"][order]
        kept["position"], kept["file"] = positions[order], len(self.files) - 1
        topics, queues = rows["topic_id"][order], rows["queue_id"][order]
        borders = np.flatnonzero((np.diff(topics) != 0) | (np.diff(queues) != 0)) + 1
        for begin, end in zip([0, *borders.tolist()], [*borders.tolist(), rows.size], strict=True):
            if end > begin:
                self._pieces[int(topics[begin]), int(queues[begin])].append((self._end + begin, end - begin))
        self._spilled.write(kept.tobytes())
        self._end += rows.size

    def of(self, topic_id: int, queue_id: int) -> npt.NDArray[np.void]:
        """Return the entries (ITEM_DTYPE) of a queue by offset. Raises OSError."""
        parts = [np.zeros(0, ITEM_DTYPE)]
        for begin, count in self._pieces.get((topic_id, queue_id), ()):
            self._spilled.seek(begin * ITEM_DTYPE.itemsize)
            parts.append(np.frombuffer(self._spilled.read(count * ITEM_DTYPE.itemsize), ITEM_DTYPE))
        items = np.concatenate(parts)
        return items[np.argsort(items["offset"], kind="stable")]
