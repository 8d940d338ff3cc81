"""The small files of a store as objects: checkpoint, abort, lock, epochs, positions, properties, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from rmqstore.dump.items import Value
from rmqstore.errors import UnreadableError
from rmqstore.formats import abort, checkpoint, lock, timer
from rmqstore.formats.compaction import parse_positions
from rmqstore.formats.epoch import parse_epoch_file
from rmqstore.store.brokerconf import parse_properties_text
from rmqstore.store.window import read_whole

LARGEST = 64 << 20

Reader = Callable[[bytes, str], Iterator[Value]]


def small_file(path: Path, name: str, reader: Reader) -> Iterator[Value]:
    """Yield the objects of one file; content that does not fit the kind of the file becomes damage. Raises UnreadableError."""
    data = read_whole(path, LARGEST + 1)
    if len(data) > LARGEST:
        raise UnreadableError(f"{path} has more than {LARGEST} bytes.", "No broker writes such a file; look at it with other tools.")
    try:
        yield from reader(data, name)
    except (ValueError, RecursionError) as error:
        yield {
            "type": "damage",
            "file": name,
            "position": 0,
            "length": len(data),
            "reason": "unparsable",
            "message": str(error) or type(error).__name__,
        }


def read_checkpoint(data: bytes, name: str) -> Iterator[Value]:
    """Yield all six fields; those of newer releases are 0 if an older one wrote the file."""
    yield _fields("checkpoint", checkpoint.parse_checkpoint(data), name)


def read_timercheck(data: bytes, name: str) -> Iterator[Value]:
    """Yield the timer's checkpoint."""
    yield _fields("timercheck", timer.parse_check(data), name)


def read_abort(data: bytes, name: str) -> Iterator[Value]:
    """Yield content and process id of the mark of a broker that runs or crashed."""
    text = abort.ABORT.parse(data)["content"].decode("utf-8", "backslashreplace")
    yield {"type": "abort", "content": text, "process_id": abort.process_id(data), "file": name}


def read_lock(data: bytes, name: str) -> Iterator[Value]:
    """Yield the lock file and whether it holds what a broker writes."""
    text = data[:64].decode("utf-8", "backslashreplace")
    yield {"type": "lock", "content": text, "as_written": data == lock.LOCK.build({}), "file": name}


def read_epoch(data: bytes, name: str) -> Iterator[Value]:
    """Yield the header and one object per epoch."""
    file = parse_epoch_file(data)
    yield {
        "type": "epoch_header",
        "entries": len(file.entries),
        "checksum": file.checksum,
        "checksum_matches": file.checksum_matches,
        "file": name,
    }
    for entry in file.entries:
        yield {"type": "epoch", "epoch": entry.epoch, "start_offset": entry.start_offset, "file": name}


def read_positions(data: bytes, name: str) -> Iterator[Value]:
    """Yield one object per compacted queue."""
    for queue, offset in parse_positions(data).items():
        yield {"type": "compaction_position", "topic": queue.topic, "queue_id": queue.queue_id, "queue_offset": offset, "file": name}


def read_properties(data: bytes, name: str) -> Iterator[Value]:
    """Yield one object per setting."""
    for key, value in parse_properties_text(data.decode("utf-8", "backslashreplace")).items():
        yield {"type": "property", "key": key, "value": value, "file": name}


def read_text(data: bytes, name: str) -> Iterator[Value]:
    """Yield the unchanged text."""
    yield {"type": "text", "content": data.decode("utf-8", "backslashreplace"), "file": name}


def read_json(data: bytes, name: str) -> Iterator[Value]:
    """Yield the parsed content; a broker's JSON library writes integer keys without quotes, and both forms are read."""
    text = data.decode("utf-8")
    try:
        content = json.loads(text)
    except ValueError:
        content = json.loads(_quoted_keys(text))
    yield {"type": "config", "file": name, "content": content}


def _quoted_keys(text: str) -> str:
    """Return `{0:…,1:…}` as `{"0":…,"1":…}`, outside of strings only."""
    pieces = []
    inside = False
    position = 0
    while position < len(text):
        character = text[position]
        if inside:
            if character == "\\":
                pieces.append(text[position : position + 2])
                position += 2
                continue
            inside = character != '"'
        elif character == '"':
            inside = True
        elif character in "{,":
            key = _bare_key(text, position + 1)
            if key is not None:
                pieces.append(f'{character}"{key[0]}"')
                position = key[1]
                continue
        pieces.append(character)
        position += 1
    return "".join(pieces)


def _bare_key(text: str, position: int) -> tuple[str, int] | None:
    """Return an integer key that begins at `position`, and the position of its colon."""
    while position < len(text) and text[position].isspace():
        position += 1
    end = position + (text[position : position + 1] == "-")
    while end < len(text) and text[end].isdigit():
        end += 1
    colon = end
    while colon < len(text) and text[colon].isspace():
        colon += 1
    return (text[position:end], colon) if end > position and text[colon : colon + 1] == ":" else None


def _fields(kind: str, parsed: Value, name: str) -> Value:
    values = {key: value for key, value in parsed.items() if isinstance(value, int)}
    return {"type": kind, **values, "file": name}
