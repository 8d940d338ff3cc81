"""The manifest of a copy: its files with lengths and SHA-256, and the range of its log."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from rmqstore.repair.files.writer import Writer
from rmqstore.repair.snapshot.take import Snapshot
from rmqstore.store.parts import PartKind
from rmqstore.verify.parts.manifest import digest_of, manifest_path

SCHEMA = 1
"""Version of the schema, increased when a member of the object changes its meaning or is removed (docs/json.md)."""


def describe(snapshot: Snapshot) -> dict[str, Any]:
    """Return the object that JSON output shows (docs/json.md). Reads all files that are not of an earlier copy.

    Raises UnreadableError.
    """
    paths = (Path(directory) / name for directory, _, names in os.walk(snapshot.target) for name in names)
    files = sorted(path for path in paths if path.relative_to(snapshot.target).parts[0] != PartKind.TOOL.value)
    return {
        "type": "snapshot",
        "schema": SCHEMA,
        "store": str(snapshot.store),
        "target": str(snapshot.target),
        "broker_version": snapshot.release,
        "begin": snapshot.begin,
        "end": snapshot.end,
        "last_store_timestamp": snapshot.last_time,
        "in_use": snapshot.in_use,
        "complete": snapshot.complete,
        "errors": snapshot.errors,
        "notes": list(snapshot.notes),
        "cloned": snapshot.copier.cloned,
        "linked": snapshot.copier.linked,
        "copied": snapshot.copier.copied,
        "shared": snapshot.copier.shared,
        "copied_bytes": snapshot.copier.bytes,
        "files": [_file(path, snapshot) for path in files],
    }


def write_manifest(snapshot: Snapshot, described: dict[str, Any]) -> Path:
    """Write the manifest beside the copy and return its path. Raises OSError."""
    path, writer = manifest_path(snapshot.target), Writer()
    part = path.with_name(path.name + ".part")
    with writer.create(part, 0o644) as descriptor:
        writer.write(descriptor, part, 0, json.dumps(described, indent=1).encode("ascii"))
        writer.fsync(descriptor, part)
    writer.rename(part, path)
    return path


def _file(path: Path, snapshot: Snapshot) -> dict[str, Any]:
    status = path.stat()
    digest, unchanged = snapshot.copier.digests.get(path, ("", 0))
    return {
        "path": path.relative_to(snapshot.target).as_posix(),
        "size": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "sha256": digest if unchanged == status.st_ctime_ns else digest_of(path),
        "source": snapshot.copier.sources.get(path),
    }
