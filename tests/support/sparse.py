"""Copies of store trees that keep holes: pre-allocated files stay as cheap as the broker left them."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import BinaryIO

BLOCK = 4096
_ZEROS = bytes(BLOCK)


def write_sparse(source: BinaryIO, target: Path, length: int) -> None:
    """Writes `length` bytes of `source` to the new file `target`; blocks of zeros become holes."""
    with target.open("wb") as out:
        while block := source.read(BLOCK):
            if block == _ZEROS:
                out.seek(BLOCK, os.SEEK_CUR)
            else:
                out.write(block)
        out.truncate(length)


def copy_tree(source: Path, target: Path) -> Path:
    """An own copy of a directory with modification times and holes; `target` must not exist."""
    target.mkdir(parents=True)
    for path in sorted(source.iterdir()):
        copy = target / path.name
        if path.is_dir():
            copy_tree(path, copy)
        else:
            with path.open("rb") as stream:
                write_sparse(stream, copy, path.stat().st_size)
            _keep_times(copy, path.stat().st_mtime_ns)
    _keep_times(target, source.stat().st_mtime_ns)
    return target


def unpack(archive: Path, target: Path) -> None:
    """Unpacks a `store.tar.xz` below `target`, sparse, with modification times."""
    with tarfile.open(archive, "r:xz") as tar:
        directories: list[tuple[Path, int]] = []
        for member in tar:
            path = target / tarfile.data_filter(member, str(target)).name
            nanoseconds = round(float(member.mtime) * 1_000_000_000)
            if member.isdir():
                path.mkdir(parents=True, exist_ok=True)
                directories.append((path, nanoseconds))
            else:
                stream = tar.extractfile(member)
                assert stream is not None, member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                write_sparse(stream, path, member.size)  # type: ignore[arg-type]
                _keep_times(path, nanoseconds)
    for path, nanoseconds in reversed(directories):
        _keep_times(path, nanoseconds)


def _keep_times(path: Path, nanoseconds: int) -> None:
    os.utime(path, ns=(nanoseconds, nanoseconds))
