"""A tar archive as another copy of a store: its log and configuration files, unpacked into a temporary directory.

Nothing else is unpacked but the epoch file, no link is followed, and no name of the archive becomes a path.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO

from rmqstore.errors import RefusedError, UnreadableError
from rmqstore.repair.sources.copies import Source
from rmqstore.store.mapped import parse_offset_name
from rmqstore.store.parts import PartKind
from rmqstore.verify.parts import config

_BLOCK = 4 << 20
_OTHER_PARTS = ("consumequeue", "batchconsumequeue", "consumequeue_ext", "timerlog", "compaction", "index")
"""Directories whose files have names as those of the log."""


def is_archive(path: Path) -> bool:
    """Return whether a path is a file that `unpacked` can read; a log file is not, whatever its first bytes are."""
    try:
        return path.is_file() and parse_offset_name(path.name) is None and tarfile.is_tarfile(path)
    except (OSError, EOFError):
        return False


def source_at(path: Path, stack: ExitStack) -> Source:
    """Return a copy of a log by its path; files of an archive are unpacked until the end of `stack`. Raises as `unpacked`."""
    path = path.absolute()
    return Source(stack.enter_context(unpacked(path)) if is_archive(path) else path, str(path))


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Yield a directory with the log of a tar archive, compressed or not, until the end of the context.

    Raises UnreadableError for a damaged archive or a full disk, RefusedError for one without log files, or with two of one name.
    """
    with TemporaryDirectory(prefix="rmqstore-copy-") as directory:
        try:
            with tarfile.open(path, "r|*") as archive:
                for member in archive:
                    target = _target(member)
                    if target is not None:
                        _unpack(path, archive.extractfile(member), member, Path(directory, target))
        except (tarfile.TarError, EOFError, ValueError) as error:
            raise UnreadableError(f"{path} is damaged: {error}.", "Unpack what can be read of it, and name that directory.") from error
        except OSError as error:
            raise UnreadableError(
                f"{path} cannot be unpacked into {directory}: {error.strerror or error}.", "Set TMPDIR to a directory with more free space."
            ) from error
        if not Path(directory, PartKind.COMMITLOG.value).is_dir():
            raise RefusedError(
                f"{path} has no file of a commit log.", "Name an archive that has the commitlog of a store, or a file of it."
            )
        yield Path(directory)


def _target(member: tarfile.TarInfo) -> str | None:
    """Return where a file of the archive is put, None if it is not needed."""
    name = PurePosixPath(member.name)
    others = any(part in _OTHER_PARTS or part.startswith("dledger-") for part in name.parts[:-1])
    if not member.isfile() or others:
        return None
    if name.name == PartKind.EPOCH.value:
        return name.name
    if name.parent.name == PartKind.CONFIG.value and name.name.removesuffix(".bak") in config.FILES:
        return f"{PartKind.CONFIG.value}/{name.name}"
    return None if parse_offset_name(name.name) is None else f"{PartKind.COMMITLOG.value}/{name.name}"


def _unpack(path: Path, source: IO[bytes] | None, member: tarfile.TarInfo, target: Path) -> None:
    """Write one file, zeros as holes. Raises OSError, RefusedError, UnreadableError."""
    if target.exists():
        raise RefusedError(f"{path} has two files named {target.name}.", "Unpack the one that belongs to the log, and name its directory.")
    if source is None or member.size > shutil.disk_usage(target.anchor).total:
        raise UnreadableError(f"{path} has a file {target.name} of {member.size} bytes.", "Unpack what is needed, and name that directory.")
    target.parent.mkdir(exist_ok=True)
    with target.open("wb") as copy:
        while block := source.read(_BLOCK):
            if block.count(0) == len(block):
                copy.seek(len(block), os.SEEK_CUR)
            else:
                copy.write(block)
        copy.truncate()
