"""The command lines that a damaged store is given to, and what each must do.

It ends in time and without a traceback, its exit status is a documented one, its output is what `--format` says, and a command that only
reads changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.support.cli import Run, rmqstore

DOCUMENTED = (0, 1, 2, 3, 4)
_PARTS = (
    *(
        "commitlog",
        "consumequeue",
        "consumequeue_ext",
        "batchconsumequeue",
        "index",
        "checkpoint",
        "abort",
        "lock",
        "timerwheel",
        "timerlog",
    ),
    *(
        "timercheck",
        "epoch",
        "dledger",
        "dledger_index",
        "compaction",
        "compaction_log",
        "compaction_queue",
        "tiered_index",
        "properties",
        "json",
    ),
)


@dataclass(frozen=True, slots=True)
class Command:
    """`words` of the command line; `reads_only`: it must not change the store. `is_json`: what it prints is one object per line."""

    words: tuple[str, ...]
    reads_only: bool
    is_json: bool

    def __str__(self) -> str:
        return "rmqstore " + " ".join(self.words)


ROCKSDB_RELEASE = ("--broker-version", "5.5.1")
Line = Callable[[Random, Path], Sequence[str]]
"""The words for a store, without its settings."""


def _in_store(*words: str) -> Line:
    name, *options = words
    return lambda random, root: (name, str(root), *options)


def _dump(random: Random, root: Path) -> Sequence[str]:
    part = random.choice(_PARTS)
    options = random.choice((("--body", "hex"), ("--decompress", "--body", "text"), ("--tail", "3"), ("--limit", "5"), ("--slots",), ()))
    return ("dump", str(root), "--part", part, *options)


def _dump_file(random: Random, root: Path) -> Sequence[str]:
    return ("dump", str(random.choice([path for path in sorted(root.rglob("*")) if not path.is_dir()] or [root])))


def _truncate_at(random: Random, root: Path) -> Sequence[str]:
    return ("truncate", str(root), "--dry-run", "--at", str(random.choice((0, 1, 65536, random.randrange(1 << 20), 2**63 - 1))))


def _merge_paths(word: str) -> Line:
    return lambda random, root: ("merge-paths", str(root), "--into", str(root / random.choice(("commitlog", "commitlog2"))), word)


def _export(random: Random, root: Path) -> Sequence[str]:
    return ("export", str(root), str(root.parent / f"export-{random.getrandbits(32)}"), "--body", "decoded", "--engine", "local")


def _query(random: Random, root: Path) -> Sequence[str]:
    asked = random.choice(
        (
            ("--key", "KEY_1"),
            ("--key", "KEY_1", "--topic", "TopicA", "--scan"),
            ("--unique-key", "7F00000100002A9F0000000000000000"),
            ("--offset-id", "7F00000100002A9F0000000000000000"),
            ("--queue", "TopicA/0@0..5"),
            ("--time", "0..4102444800000"),
            ("--physical-offset", str(random.choice((0, 65536, random.randrange(1 << 20))))),
        )
    )
    return ("query", str(root), *asked)


READING: tuple[Line, ...] = (
    _in_store("info"),
    _in_store("doctor"),
    _in_store("verify", "--engine", "local"),
    _in_store("verify", "--quick", "--engine", "local"),
    _in_store("recover", "--dry-run"),
    _in_store("recover", "--dry-run", "--what-if", "version=all"),
    _in_store("recover", "--dry-run", "--strategy", "salvage"),
    _in_store("recover", "--dry-run", "--strategy", "broker"),
    _in_store("recover", "--dry-run", "--strategy", "minimal"),
    _in_store("recover", "--dry-run", "--strategy", "salvage", "--lost-units", "placeholder"),
    _in_store("truncate", "--dry-run"),
    _truncate_at,
    _in_store("rebuild-consumequeue", "--dry-run", "--engine", "local"),
    _in_store("rebuild-consumequeue", "--mode", "faithful", "--dry-run", "--engine", "local"),
    _in_store("rebuild-index", "--dry-run", "--engine", "local"),
    _in_store("rebuild-index", "--all", "--dry-run", "--engine", "local"),
    _in_store("rebuild-checkpoint", "--dry-run"),
    _in_store("convert", "--to", "files", "--dry-run"),
    _in_store("convert", "--to", "rocksdb", "--dry-run", *ROCKSDB_RELEASE),
    _merge_paths("--dry-run"),
    _in_store("stats", "--engine", "local"),
    _export,
    _in_store("history"),
    _in_store("queues"),
    _in_store("topics"),
    _in_store("groups"),
    _in_store("timers"),
    _in_store("pending"),
    _in_store("predict"),
    _query,
    _dump,
    _dump,
    _dump,
    _dump_file,
)
WRITING: tuple[Line, ...] = (
    _in_store("recover", "--yes", "--engine", "local"),
    _in_store("recover", "--yes", "--engine", "local"),
    _in_store("recover", "--yes", "--engine", "local", "--lost-units", "placeholder"),
    _in_store("recover", "--yes", "--strategy", "broker"),
    _in_store("recover", "--yes", "--strategy", "minimal"),
    _in_store("truncate", "--yes"),
    _in_store("rebuild-consumequeue", "--yes", "--engine", "local"),
    _in_store("rebuild-index", "--yes", "--engine", "local"),
    _in_store("rebuild-checkpoint", "--yes"),
    _in_store("convert", "--to", "files", "--yes"),
    _in_store("convert", "--to", "rocksdb", "--yes", *ROCKSDB_RELEASE),
    _merge_paths("--yes"),
)
_WITH_RELEASE = ("doctor", "recover", "truncate", "rebuild-consumequeue", "rebuild-index", "rebuild-checkpoint")
_WITHOUT_SETTINGS = ("history",)


def command(line: Line, random: Random, root: Path, release: str, settings: Sequence[str], *, reads_only: bool) -> Command:
    """The whole command line for a store."""
    words = list(line(random, root))
    name = words[0]
    if name in _WITH_RELEASE and random.random() < 0.8:
        words += ["--broker-version", release]
    if name not in _WITHOUT_SETTINGS and random.random() < 0.8:
        words += settings
    is_json = name != "export" and random.random() < 0.7
    if name != "export":
        words += ["--format", "json" if is_json else random.choice(("table", "csv"))]
    return Command(tuple(words), reads_only, is_json)


def run(given: Command) -> Run:
    """Run it in this process."""
    return rmqstore(*given.words)


def broken(given: Command, done: Run) -> Iterator[str]:
    """Everything that is not as it must be."""
    if done.crashed:
        yield f"fails unexpectedly: {done.err.strip().splitlines()[0][:200]}"
    if done.status not in DOCUMENTED:
        yield f"ends with {done.status}"
    if done.status > 1 and not done.err:
        yield f"ends with {done.status} and says nothing"
    if done.status > 2 and done.err and "hint: " not in done.err:
        yield f"ends with {done.status} and no hint"
    if given.is_json:
        try:
            for text in done.out.splitlines():
                json.loads(text)
        except ValueError as error:
            yield f"prints what is no JSON: {error}"
