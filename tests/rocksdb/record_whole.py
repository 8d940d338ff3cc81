"""Ask whole brokers what they do with a damaged RocksDB database of a store; one JSON line per case.

python -m tests.rocksdb.record_whole DIRECTORY DATABASE [--only PATTERN] >> tests/rocksdb/recorded-brokers.jsonl

DIRECTORY holds `case.toml`, `messages.jsonl.gz` and `store.tar.xz` as a sample store does; DATABASE is relative to the root.
"""

from __future__ import annotations

import argparse
import fnmatch
import gzip
import json
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from tests.broker.consumed_messages import NotServed
from tests.broker.whole_start import Asked, start
from tests.rocksdb.damages import DATABASE_DAMAGES, WAL_DAMAGES
from tests.support import sparse

_DAMAGES = DATABASE_DAMAGES | WAL_DAMAGES
_TEXT = 600


def main() -> None:
    """Print the recorded cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("database")
    parser.add_argument("--only", default="*")
    parser.add_argument("--release", help="of the broker, if not the one that wrote the store")
    arguments = parser.parse_args()
    for damage in fnmatch.filter(_DAMAGES, arguments.only):
        sys.stdout.write(json.dumps(_record(arguments.directory, arguments.database, damage, arguments.release), ensure_ascii=False) + "\n")
        sys.stdout.flush()


def _record(directory: Path, database: str, damage: str, release: str | None) -> dict[str, Any]:
    """Return what a whole broker did with one damaged copy of the store: whether it started, and how many messages clients pulled."""
    case = tomllib.loads((directory / "case.toml").read_text())
    with gzip.open(directory / "messages.jsonl.gz", "rt") as stream:
        queues = sorted({f"{line['topic']}/{line['queueId']}" for line in map(json.loads, stream) if line.get("queueId") is not None})
    with tempfile.TemporaryDirectory() as scratch:
        sparse.unpack(directory / "store.tar.xz", Path(scratch))
        root = Path(scratch) / "store"
        _DAMAGES[damage](root / database)
        release = release or case["broker_version"]
        said: dict[str, Any] = {"base": case["name"], "release": release, "database": database, "damage": damage}
        settings = {**case["settings"], **case["settings"].pop("extra", {})}
        try:
            found = start(release, root, {key: _text(value) for key, value in settings.items()}, Asked(queues), Path(scratch) / "run")
        except NotServed as error:
            return {**said, "starts": False, "text": str(error).replace(str(root), "STORE")[:_TEXT]}
        served = sum(len(of_queue) for of_queue in found.queues.values())
        return {**said, "starts": True, "messages": served, "refused": list(found.refused)[:3]}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    main()
