"""A DLedger commit log as objects: entry headers with the message inside, the end mark of a file, index units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rmqstore.dump.fields import Fields, cells
from rmqstore.dump.items import Value
from rmqstore.dump.resync import next_record
from rmqstore.dump.steps import MakeMessage, damage
from rmqstore.formats import dledger
from rmqstore.formats.record import RecordError, decode_record
from rmqstore.reading.zeros import end_of_nonzero, first_nonzero
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import open_read_only, read_descriptor

_HEADER = Fields(dledger.ENTRY_HEADER)
_INDEX_UNIT = Fields(dledger.INDEX_UNIT)
_CHUNK = 256 * 1024

Name = Callable[[MappedFile], str]


def dledger_log(files: Sequence[MappedFile], name: Name, make_message: MakeMessage) -> Iterator[Value]:
    """Yield the entries in the order of the log; the message inside is None if the body is not a record."""
    for file in files:
        yield from _log_file(file, name(file), make_message)


def _log_file(file: MappedFile, name: str, make_message: MakeMessage) -> Iterator[Value]:
    position = 0
    with open_read_only(file.path) as descriptor:
        data, start = b"", 0
        while position + 8 <= file.length:
            begin = position - start
            head = data[begin : begin + _HEADER.size]
            size = int.from_bytes(head[4:8], "big", signed=True)
            if len(head) < _HEADER.size or begin + size > len(data):
                length = min(max(_CHUNK, size if len(head) >= 8 else 0), file.length - position)
                data, start, begin = read_descriptor(descriptor, file.path, position, length), position, 0
                head = data[: _HEADER.size]
                size = int.from_bytes(head[4:8], "big", signed=True)
                if len(data) < size <= file.length - position and int.from_bytes(head[:4], "big", signed=True) == dledger.ENTRY_MAGIC:
                    data = read_descriptor(descriptor, file.path, position, size)
            magic = int.from_bytes(head[:4], "big", signed=True)
            if magic == dledger.END_MAGIC:
                yield {"type": "dledger_end", "magic": magic, "size": size, "position": file.start + position}
                return
            if len(head) == _HEADER.size:
                header = _HEADER.read(head)
                sound = magic == dledger.ENTRY_MAGIC and header["body_len"] == size - _HEADER.size >= 0
                if sound and header["pos"] == file.start + position and position + size <= file.length:
                    body = data[begin + _HEADER.size : begin + size]
                    yield _entry(header, body, file.start + position, make_message)
                    position += size
                    continue
            if first_nonzero(file, position) == file.length:
                return
            found = next_record(file, position + _HEADER.size + 1)
            # An entry begins one header before the record that it holds.
            following = None if found is None or found == file.length else found - _HEADER.size
            end = end_of_nonzero(file, position) if following is None else following
            yield damage(file.start + position, end - position, "no_entry", "no DLedger entry begins here", name)
            if following is None:
                return
            position = following


def _entry(header: Value, body: bytes, position: int, make_message: MakeMessage) -> Value:
    try:
        message = make_message(decode_record(body), position + _HEADER.size)
    except RecordError:
        message = None
    return {"type": "dledger_entry", **header, "position": position, "message": message}


def dledger_index(files: Sequence[MappedFile], name: Name) -> Iterator[Value]:
    """Yield the index units that were written."""
    for file in files:
        for position, data in cells(file, _INDEX_UNIT.size, 0, file.length - file.length % _INDEX_UNIT.size):
            yield {"type": "dledger_index_unit", **_INDEX_UNIT.read(data), "file": name(file), "position": position}
