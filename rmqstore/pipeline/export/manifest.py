"""The manifest of an export, a file of JSON lines that only grows: what is exported, then every piece that is done.

An incomplete last line is ignored; its piece is exported again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rmqstore.errors import RefusedError
from rmqstore.pipeline.export.attempt import FileDone, PieceDone
from rmqstore.pipeline.export.request import ExportRequest
from rmqstore.pipeline.logparts import LogPiece
from rmqstore.store.root import Store

MANIFEST = "_manifest"
LAYOUT = 1
"""Changes when files are divided or written differently, so that no export is continued by other rules."""

_ELSEWHERE = "Export into another directory, or remove this one."


def head_of(store: Store, request: ExportRequest, pieces: Sequence[LogPiece]) -> dict[str, Any]:
    """Return the first line: what decides the content of the files."""
    return {
        "type": "export",
        "layout": LAYOUT,
        **request.as_json(),
        "pieces": len(pieces),
        "fingerprint": _fingerprint(store, pieces),
        "store": str(store.root),
    }


def read_manifest(path: Path) -> tuple[dict[str, Any], list[PieceDone], int]:
    """Return (first line, finished pieces, bytes of complete lines). Raises RefusedError for a file that is no manifest, OSError."""
    lines = path.read_bytes().splitlines(keepends=True)
    whole = [line for line in lines if line.endswith(b"\n")]
    try:
        head, *rest = [json.loads(line) for line in whole]
        done = [piece_of(line) for line in rest if line["type"] == "piece"]
    except (ValueError, TypeError, KeyError) as error:
        raise RefusedError(f"{path} is not the manifest of an export.", _ELSEWHERE) from error
    return head, done, sum(map(len, whole))


def require_same(path: Path | str, head: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise RefusedError if an export that was begun is not the requested one. The store may have been moved."""
    differing = [name for name in wanted if name != "store" and head.get(name) != wanted[name]]
    if differing in (["fingerprint"], ["pieces", "fingerprint"]):
        raise RefusedError(f"The log of {wanted['store']} is not the one that the export of {path} was made from.", _ELSEWHERE)
    if differing:
        names = ", ".join(name.replace("_", " ") for name in differing if name != "fingerprint")
        raise RefusedError(f"{path} holds another export: {names} of it differ.", _ELSEWHERE)


def line_of(done: PieceDone) -> bytes:
    """Return the line of a finished piece."""
    values = {name: value for name, value in asdict(done).items() if name != "attempt"}
    return json_line({"type": "piece", **values})


def json_line(value: Mapping[str, Any]) -> bytes:
    """Return one line of a manifest."""
    return (json.dumps(value, separators=(",", ":")) + "\n").encode()


def piece_of(line: Mapping[str, Any]) -> PieceDone:
    """Return the piece of a parsed line. Raises TypeError, KeyError."""
    files = tuple(FileDone(**one) for one in line["files"])
    return PieceDone(line["part"], "", files, line["messages"], line["damaged_ranges"], line["damaged_bytes"])


def _fingerprint(store: Store, pieces: Sequence[LogPiece]) -> str:
    """Return a hash of names, lengths and modification times of the log's files, and of the bounds of its pieces."""
    files = [(file.path.name, file.start, file.length, file.path.stat().st_mtime_ns) for file in store.message_log.files]
    places = [(piece.start, piece.end) for piece in pieces]
    return hashlib.sha256(json.dumps([files, places]).encode()).hexdigest()
