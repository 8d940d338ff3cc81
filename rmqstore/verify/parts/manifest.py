"""The files of a copy against the manifest that `rmqstore snapshot` wrote beside it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from rmqstore.errors import RmqstoreError
from rmqstore.findings import Finding
from rmqstore.store.window import open_read_only, read_whole
from rmqstore.verify.context import Context
from rmqstore.verify.guard import limited

MANIFEST_SUFFIX = ".manifest.json"
"""What follows on the name of a copy in that of its manifest."""
_LARGEST = 512 << 20
_PIECE = 512 << 10
_CODE = "RMQ-ST-MANIFEST"


def manifest_path(root: Path) -> Path:
    """Return the path of the manifest of a copy, which is beside it."""
    return root.with_name(root.name + MANIFEST_SUFFIX)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file. Raises UnreadableError."""
    digest, position = hashlib.sha256(), 0
    with open_read_only(path) as descriptor:
        while data := os.pread(descriptor, _PIECE, position):
            digest.update(data)
            position += len(data)
    return digest.hexdigest()


def check(context: Context) -> Iterator[Finding]:
    """Yield a finding for each file that is not as in the manifest, if there is one; with `quick` lengths alone are compared."""
    path = manifest_path(context.store.root)
    if context.store.only is not None or not path.is_file() or path.is_symlink():
        return
    try:
        files = _files(json.loads(read_whole(path, _LARGEST)))
    except (ValueError, RecursionError, RmqstoreError):
        yield context.finding(_CODE, f"{path.name} cannot be read as a manifest", file=path)
        return
    yield from limited(context, path, _findings(context, files))


def _files(value: Any) -> dict[str, tuple[int, str]]:
    """Return length and digest by path of a manifest. Raises ValueError."""
    if not isinstance(value, dict) or value.get("type") != "snapshot" or not isinstance(value.get("files"), list):
        raise ValueError("no manifest")
    found: dict[str, tuple[int, str]] = {}
    for one in value["files"]:
        if not isinstance(one, dict):
            raise ValueError("no file")
        path, size, digest = one.get("path"), one.get("size"), one.get("sha256")
        if not isinstance(path, str) or not isinstance(size, int) or not isinstance(digest, str):
            raise ValueError("no file")
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise ValueError("a path outside of the copy")
        found[path] = (size, digest)
    return found


def _findings(context: Context, files: Mapping[str, tuple[int, str]]) -> Iterator[Finding]:
    for name, (size, digest) in files.items():
        path = context.store.root / name
        if not path.is_file():
            yield context.finding(_CODE, f"{name} is in the manifest, and missing here", file=path)
        elif path.stat().st_size != size:
            message = f"{name} has another length than in the manifest"
            yield context.finding(_CODE, message, file=path, expected=size, found=path.stat().st_size)
        elif not context.options.quick and digest_of(path) != digest:
            yield context.finding(_CODE, f"{name} has other bytes than in the manifest", file=path)
