"""Ask the real store code what it does with damaged RocksDB queues; one JSON line per case.

python -m tests.rocksdb.record [--only PATTERN] > tests/rocksdb/recorded-queues.jsonl
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.broker.harness import Harness, JvmDied
from tests.rocksdb.damages import DATABASE_DAMAGES
from tests.support import stores

STORES = ("5.2.0-rocksdb", "5.3.3-rocksdb", "5.5.1-rocksdb")
JOBS = 4
_TEXT = 200
_FAILED = re.compile("Failed|xception")


def main() -> None:
    """Print the recorded cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="*")
    parser.add_argument("--store", action="append", choices=STORES)
    arguments = parser.parse_args()
    for base in arguments.store or STORES:
        names = fnmatch.filter(DATABASE_DAMAGES, arguments.only)
        cases = [(base, damage, abort) for damage in names for abort in (False, True)]
        with Harness(stores.case(base).release, JOBS) as harness, ThreadPoolExecutor(JOBS) as pool:
            for line in pool.map(lambda case: _record(harness, *case), cases):
                sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
                sys.stdout.flush()


def _record(harness: Harness, base: str, damage: str, abort: bool) -> dict[str, Any]:
    """Return what the broker of the release did with one damaged copy of a sample store."""
    case = stores.case(base)
    queues = sorted({f"{line['topic']}/{line['queueId']}" for line in case.truth()})
    with tempfile.TemporaryDirectory() as scratch:
        root = stores.fresh_store(base, Path(scratch))
        DATABASE_DAMAGES[damage](root / "consumequeue")
        if abort:
            (root / "abort").touch()
        job = {
            "command": "read",
            "dir": str(root),
            "profile": "default",
            "set": {f"?{name}": value for name, value in case.settings(root).items()},
            "topics": case.data.get("topics", {}),
            "queues": queues,
            "fork": True,
            "timeoutMillis": 90_000,
        }
        tables = _tables(root)
        try:
            answer = harness.ask(job)
        except JvmDied:
            answer = {"failed": "the JVM died"}
        return {
            "base": base,
            "damage": damage,
            "abort": abort,
            "load": answer.get("loadOk"),
            "messages": sum(line["kind"] == "message" for line in answer.get("lines", ())),
            "tables_deleted": len(tables - _tables(root)),
            "exception": _text(answer.get("exception") or answer.get("failed"), root),
            "log": [text for entry in answer.get("log", ()) if _FAILED.search(text := _text(entry.get("text"), root) or "")][:1],
        }


def _tables(root: Path) -> set[str]:
    return {path.name for path in (root / "consumequeue").glob("*.sst")}


def _text(found: object, root: Path) -> str | None:
    return None if found is None else str(found).replace(str(root), "STORE").replace("{root}", "STORE")[:_TEXT]


if __name__ == "__main__":
    main()
