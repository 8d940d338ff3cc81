"""The lines that a broker prints in store.log and broker.log when it does not start.

Java prints the exception after `load exception` with a stack; only its first line is given here (fact sheet commit log §4, §12).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from rmqstore.prediction.blockers import Blocker, BlockerCode
from rmqstore.store.root import Store

LOAD_EXCEPTION = "load exception"
_IN_THE_WAY = "java.io.FileNotFoundException: {} (Is a directory)"


def lines_of(store: Store, blocker: Blocker) -> tuple[str, ...]:
    """Return the lines for one blocker; the blocker's own message where no better line is known."""
    make = _LINES.get(blocker.code)
    return (blocker.message,) if make is None else make(store, blocker)


def _length(store: Store, blocker: Blocker) -> tuple[str, ...]:
    path = blocker.file
    if path is None or blocker.message.startswith(LOAD_EXCEPTION):
        return _exception(store, blocker)
    line = f"{path}\t{_size(path)} length not matched message store config value, please check it manually"
    directories = store.commitlog_directories
    in_log = path.parent in (*directories.writable, *directories.read_only)
    return (line, "load commit log Failed") if in_log else (line,)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _name(store: Store, blocker: Blocker) -> tuple[str, ...]:
    name = blocker.file.name if blocker.file is not None else ""
    return LOAD_EXCEPTION, f'java.lang.NumberFormatException: For input string: "{name}"'


def _exception(store: Store, blocker: Blocker) -> tuple[str, ...]:
    return LOAD_EXCEPTION, blocker.message.removeprefix(f"{LOAD_EXCEPTION}: ")


def _queue_type(store: Store, blocker: Blocker) -> tuple[str, ...]:
    return LOAD_EXCEPTION, f"java.lang.RuntimeException: {blocker.message.removeprefix(f'{LOAD_EXCEPTION}: ')}"


def _empty_queue_file(store: Store, blocker: Blocker) -> tuple[str, ...]:
    return LOAD_EXCEPTION, "java.lang.IllegalArgumentException: newPosition < 0: (-20 < 0)"


def _checkpoint(store: Store, blocker: Blocker) -> tuple[str, ...]:
    return LOAD_EXCEPTION, _IN_THE_WAY.format(blocker.file)


def _index(store: Store, blocker: Blocker) -> tuple[str, ...]:
    return f"load file {blocker.file} error", _IN_THE_WAY.format(blocker.file)


def _abort(store: Store, blocker: Blocker) -> tuple[str, ...]:
    return (_IN_THE_WAY.format(blocker.file),)


def _out_of_memory(store: Store, blocker: Blocker) -> tuple[str, ...]:
    return ("java.lang.OutOfMemoryError: Java heap space",)


_LINES: Mapping[BlockerCode, Callable[[Store, Blocker], tuple[str, ...]]] = {
    BlockerCode.FILE_LENGTH: _length,
    BlockerCode.EMPTY_FILE: _length,
    BlockerCode.DIRECTORY: _length,
    BlockerCode.FILE_NAME: _name,
    BlockerCode.QUEUE_TYPE: _queue_type,
    BlockerCode.CHECKPOINT: _checkpoint,
    BlockerCode.INDEX: _index,
    BlockerCode.EMPTY_QUEUE_FILE: _empty_queue_file,
    BlockerCode.EXT_FILE: _exception,
    BlockerCode.ACCELERATED: _exception,
    BlockerCode.OUT_OF_MEMORY: _out_of_memory,
    BlockerCode.ABORT_DIRECTORY: _abort,
}
