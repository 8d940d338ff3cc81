"""Beginning and end of the zeros of a file, without reading the holes of sparse files."""

from __future__ import annotations

from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import data_extents, open_read_only, read_at, read_descriptor

_HEAD = 64  # bytes
_CHUNK = 1 << 20


def first_nonzero(file: MappedFile, position: int) -> int:
    """Return the position in the file (bytes) of the first nonzero byte at or after `position`, the file's length if there is none."""
    # The search for holes may cost as much as the file is long: it is made only where zeros begin.
    head = read_at(file, position, min(_HEAD, file.length - position))
    rest = head.lstrip(b"\0")
    if rest:
        return position + len(head) - len(rest)
    for begin, end in data_extents(file):
        with open_read_only(file.path) as descriptor:
            at = max(begin, position)
            while at < end:
                chunk = read_descriptor(descriptor, file.path, at, min(_CHUNK, end - at))
                rest = chunk.lstrip(b"\0")
                if rest:
                    return at + len(chunk) - len(rest)
                at += len(chunk)
    return file.length


def end_of_nonzero(file: MappedFile, position: int) -> int:
    """Return the position after the last byte that is not zero, `position` if everything after it is zero."""
    for begin, end in reversed(list(data_extents(file))):
        with open_read_only(file.path) as descriptor:
            first, at = max(begin, position), end
            while at > first:
                start = max(first, at - _CHUNK)
                chunk = read_descriptor(descriptor, file.path, start, at - start).rstrip(b"\0")
                if chunk:
                    return start + len(chunk)
                at = start
    return position
