"""The tiered storage of a store as a broker would load it: metadata, files, and which bytes of each segment it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from rmqstore.formats.tiered_names import SegmentType
from rmqstore.reading.tieredstore import (
    METADATA,
    ListKey,
    SegmentFiles,
    TieredMetadata,
    queue_of,
    segment_files,
    segments_directory,
)
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import Store
from rmqstore.verify.parts.config import State, Text, in_use, read_both
from rmqstore.verify.queues.spans import QueueKey


@dataclass(frozen=True)
class Tiered:
    """Tiered storage of one store. `metadata` is None if no whole file has it, and `why` gives the reason; `files` is None without any."""

    text: Text
    metadata: TieredMetadata | None
    why: str
    files: SegmentFiles | None

    @cached_property
    def queues(self) -> dict[QueueKey, str]:
        """The path of the lists of each queue that has consume queue segments, by topic and queue id."""
        found: dict[QueueKey, str] = {}
        for path, kind in self._lists:
            place = queue_of(path)
            if place is not None and kind is not SegmentType.INDEX:
                found[place[1:]] = path
        return dict(sorted(found.items()))

    @property
    def is_unused(self) -> bool:
        """Return whether a broker did not begin to write there: no metadata and no segments."""
        return self.text.state is State.MISSING and not self.queues

    @property
    def _lists(self) -> Iterator[ListKey]:
        yield from () if self.metadata is None else self.metadata.lists
        yield from () if self.files is None else self.files.lists

    def read_by_broker(self, path: str, kind: SegmentType) -> list[MappedFile]:
        """Return the files of a list as far as a broker reads them: those in the metadata, the last one whole, others up to their size.

        Without metadata all files count. A file of an index segment is read up to its size in any case.
        """
        files = () if self.files is None else self.files.lists.get((path, kind), ())
        if self.metadata is None:
            return [file for file in files if file.length]
        segments = self.metadata.lists.get((path, kind), ())
        sizes = {segment.base_offset: segment.size for segment in segments}
        last = segments[-1].base_offset if segments and kind is not SegmentType.INDEX else None
        known = [file for file in files if file.start in sizes]
        used = [file if file.start == last else replace(file, length=min(file.length, max(0, sizes[file.start]))) for file in known]
        return [file for file in used if file.length]


def tiered_of(store: Store) -> Tiered:
    """Return the tiered storage of a store. Reads the metadata, lists directories. Raises UnreadableError."""
    text = in_use(*read_both(store.config_path / METADATA))
    metadata, why = None, text.why or "missing"
    if text.state in (State.WHOLE, State.TABLELESS) and text.value is not None:
        try:
            metadata, why = TieredMetadata.of(text.value), ""
        except ValueError as error:
            why = str(error)
    directory = segments_directory(store)
    files = segment_files(store, directory) if directory is not None and directory.is_dir() else None
    return Tiered(text, metadata, why, files)
