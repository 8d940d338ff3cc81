"""Compares the simulation with what the real store code did, case by case: a base store, a damage as operations, a release.

    python -m tests.recovery.judge TRUTH.jsonl.gz... --stores DIR [--damage TEXT] [--base TEXT] [--abort yes|no] [--show N]

`--stores` holds the unpacked base stores (`<name>/store` and `<name>/case.toml`). Prints disagreements by field, base, damage and release.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import shutil
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rmqstore.recovery.outcome import Outcome, State
from rmqstore.recovery.simulation import simulate
from rmqstore.store.root import Store

Case = dict[str, Any]
Difference = tuple[str, Any, Any]
"""Field, what the broker did, what was predicted."""

# Files whose names or bytes hang on the clock, the process or RocksDB.
_VOLATILE = ("rocksdbstore/", "consumequeue_rocksdb/")


class WorkingStore:
    """A base store in a scratch directory: damaged for one case, mended from the original afterwards."""

    def __init__(self, base: Path, scratch: Path) -> None:
        self._original = base / "store"
        self.root = scratch / base.name
        shutil.copytree(self._original, self.root)
        with (base / "case.toml").open("rb") as file:
            case = tomllib.load(file)
        # Settings of the broker, not of its store, are marked by a prefix there.
        settings = case.get("settings", {}).items()
        self.settings = {key.removeprefix("broker."): _text(value) for key, value in settings if not isinstance(value, dict)}

    def damage(self, case: Case) -> None:
        for operation in case["ops"]:
            _apply(operation, self.root)
        _set_abort(self.root / "abort", case["abort"])

    def mend(self, case: Case) -> None:
        touched = {operation["path"] for operation in case["ops"]} | {operation.get("from", "abort") for operation in case["ops"]}
        for name in sorted(touched | {"abort"}):
            path, original = self.root / name, self._original / name
            _remove(path)
            if original.is_dir():
                shutil.copytree(original, path)
            elif original.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(original, path)
            else:
                self._remove_new_directories(path.parent)

    def _remove_new_directories(self, path: Path) -> None:
        while not (self._original / path.relative_to(self.root)).exists():
            if path.is_dir():
                path.rmdir()
            path = path.parent


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()


def _set_abort(path: Path, how: str) -> None:
    if how == "yes" and not path.exists():
        path.touch()
    elif how == "no":
        _remove(path)


def _apply(operation: Case, root: Path) -> None:
    kind, path = operation["op"], root / operation["path"]
    source = root / operation.get("from", operation["path"])
    if kind not in ("create", "mkdir", "delete") and not (source.is_file() and (kind in ("copy", "rename") or path.is_file())):
        return
    if kind == "delete":
        _remove(path)
    elif kind == "mkdir":
        path.mkdir(parents=True, exist_ok=True)
    elif kind == "create":
        path.parent.mkdir(parents=True, exist_ok=True)
        data = bytes.fromhex(operation.get("hex", ""))
        path.write_bytes(data.ljust(operation.get("len", 0), b"\0"))
    elif kind == "copy":
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)
    elif kind == "rename":
        source.rename(path)
    elif kind == "resize":
        with path.open("r+b") as file:
            file.truncate(operation["len"])
    else:
        with path.open("r+b") as file:
            file.seek(operation["at"])
            data = _bytes_of(operation, kind, file.read(1), source)
            file.seek(operation["at"])
            file.write(data)


def _bytes_of(operation: Case, kind: str, old: bytes, source: Path) -> bytes:
    match kind:
        case "write":
            return bytes.fromhex(operation["hex"])
        case "xor":
            return bytes([old[0] ^ operation["mask"]])
        case "zero":
            return bytes(operation["len"])
        case "noise":
            return random.Random(operation["seed"]).randbytes(operation["len"])
        case "move":
            return source.read_bytes()[operation["from_at"] : operation["from_at"] + operation["len"]]
        case _:
            raise ValueError(f"unknown operation {kind}")


def differences(case: Case, outcome: Outcome, paths: set[str]) -> Iterator[Difference]:
    """What was predicted otherwise than it came. `paths`: everything that was in the store before the start."""
    s1 = case["S1"]
    yield from _compare("loadOk", case["loadOk"], outcome.load_ok)
    if outcome.dispatched_in_load is not None:
        yield from _compare("dispatchedInLoad", _dispatched(case["dispatchedInLoad"]), _counted(outcome.dispatched_in_load))
    whole = not any(blocker.code == "queue-load" for blocker in outcome.blockers)
    yield from _states("S1", s1, outcome.after_load, whole)
    starts = bool(case["loadOk"] and case.get("startOk"))
    yield from _compare("starts", starts, outcome.starts)
    if "S2" in case and outcome.after_start is not None:
        yield from _compare("dispatchedAfterStart", _dispatched(case["dispatchedAfterStart"]), _counted(outcome.dispatched_after_start))
        yield from _states("S2", {**s1, **case["S2"]}, outcome.after_start, whole)
        if case.get("startOk"):
            yield from _compare("caughtUp", case["caughtUp"], outcome.caught_up)
    yield from _compare("abortAfterStop", case["abortAfterStop"], outcome.abort_after_stop)
    yield from _checkpoint(case["checkpointAfter"], outcome.checkpoint_after)
    yield from _changes(case["changed"], outcome, paths)


def _checkpoint(true: list[int] | None, predicted: tuple[int | None, ...] | None) -> Iterator[Difference]:
    if true is None or predicted is None:
        yield from _compare("checkpointAfter", true, predicted)
        return
    for number, (left, right) in enumerate(zip(true, predicted, strict=True)):
        if right is not None:
            yield from _compare(f"checkpointAfter@{8 * number}", left, right)


def _changes(true: dict[str, Any], outcome: Outcome, paths: set[str]) -> Iterator[Difference]:
    seen = {}
    for name, value in true.items():
        if not _named_by_clock(name, paths):
            seen[name] = value if isinstance(value, str) else "modified" if name in paths else "created"
    predicted = {name: str(change) for name, change in outcome.changes.items()}
    for name in sorted(seen.keys() | predicted.keys()):
        if name not in ("abort", "abort.bak") and not name.startswith(_VOLATILE) and not _unknown(name, outcome):
            if seen.get(name) != predicted.get(name):
                yield f"changed:{name.split('/')[0]}", (name, seen.get(name)), (name, predicted.get(name))


def _unknown(name: str, outcome: Outcome) -> bool:
    """Whether the prediction says nothing about the path: the queues are in RocksDB."""
    return outcome.unknown is not None and name.startswith(("consumequeue/", "index/"))


def _named_by_clock(name: str, paths: set[str]) -> bool:
    return name.startswith("index/") and name != "index/" and name not in paths


def _states(label: str, true: dict[str, Any], state: State, whole: bool) -> Iterator[Difference]:
    plain = {
        "minPhyOffset": state.min_phy_offset,
        "maxPhyOffset": state.max_phy_offset,
        "flushedWhere": state.flushed_where,
        "confirmOffset": state.confirm_offset,
        "confirmField": state.confirm_field,
        "reputFromOffset": state.reput_from_offset,
        "dispatchBehindBytes": state.dispatch_behind_bytes,
    }
    for name, value in plain.items():
        if value is not None:
            yield from _compare(f"{label}.{name}", true[name], value)
    if state.commitlog_files is not None:
        yield from _compare(f"{label}.files", [entry[:2] for entry in true["files"]], [list(entry) for entry in state.commitlog_files])
    if whole and state.queues is not None:
        queues = {
            name: [queue.min_offset, queue.max_offset, queue.max_physic_offset, queue.min_logic_offset, queue.files]
            for name, queue in state.queues.items()
            if queue.files or queue.max_offset or queue.min_offset
        }
        for name in sorted(true["queues"].keys() | queues.keys()):
            yield from _compare(f"{label}.queues", (name, true["queues"].get(name)), (name, queues.get(name)))
    if whole and state.next_offsets is not None:
        merged = {key: value for table in true["next"].values() for key, value in table.items()}
        yield from _compare(f"{label}.next", merged, {key: value for key, value in state.next_offsets.items() if value})
    if state.index_files is None:
        return
    index = [
        [
            file.name,
            file.begin_timestamp,
            file.end_timestamp,
            file.begin_phy_offset,
            file.end_phy_offset,
            file.hash_slot_count,
            file.index_count,
        ]
        for file in state.index_files
    ]
    named = {file.name for file in state.index_files}
    yield from _compare(f"{label}.index", [[row[0] if row[0] in named else None, *row[1:]] for row in true["index"]], index)


def _dispatched(phase: dict[str, Any]) -> tuple[Any, ...]:
    return phase["count"], phase.get("first"), phase.get("last"), phase.get("lastSize")


def _counted(dispatched: Any) -> tuple[Any, ...]:
    return dispatched.count, dispatched.first, dispatched.last, dispatched.last_size


def _compare(name: str, true: Any, predicted: Any) -> Iterator[Difference]:
    if true != predicted:
        yield name, true, predicted


def paths_of(root: Path) -> set[str]:
    """Every path below a root, directories with a trailing slash."""
    return {path.relative_to(root).as_posix() + ("/" if path.is_dir() else "") for path in root.rglob("*")}


@dataclass
class Judge:
    """Runs cases; counts agreements and disagreements."""

    stores: Path
    scratch: Path
    working: dict[str, WorkingStore] = field(default_factory=dict)

    def judge(self, case: Case) -> list[Difference]:
        """The differences of one case."""
        name = case["base"]
        if name not in self.working:
            self.working[name] = WorkingStore(self.stores / name, self.scratch)
        store = self.working[name]
        store.damage(case)
        try:
            outcome = simulate(Store.open(store.root, settings=store.settings), case["version"])
            return list(differences(case, outcome, paths_of(store.root)))
        finally:
            store.mend(case)


def load_cases(paths: list[Path]) -> Iterator[tuple[str, Case]]:
    """(file name, case) of every line of the truth files."""
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                case = json.loads(line)
                if "S1" in case:  # else the broker's process itself failed
                    yield path.name.removesuffix(".jsonl.gz"), case


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truth", nargs="+", type=Path)
    parser.add_argument("--stores", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm/rmqstore-judge"))
    parser.add_argument("--damage", default="")
    parser.add_argument("--base", default="")
    parser.add_argument("--abort", default="")
    parser.add_argument("--field", default="")
    parser.add_argument("--show", type=int, default=5)
    options = parser.parse_args()
    shutil.rmtree(options.scratch, ignore_errors=True)
    options.scratch.mkdir(parents=True)
    judge = Judge(options.stores, options.scratch)
    per_file: dict[str, Counter[str]] = {}
    fields: Counter[str] = Counter()
    bad: Counter[tuple[str, str, str]] = Counter()
    shown = 0
    began = time.monotonic()
    try:
        for source, case in load_cases(options.truth):
            if options.damage not in case["damage"] or options.base not in case["base"] or options.abort not in case["abort"]:
                continue
            counts = per_file.setdefault(source, Counter())
            try:
                found = judge.judge(case)
            except Exception as error:
                found = [(f"CRASH {type(error).__name__}", None, str(error))]
                if options.show and shown < options.show:
                    import traceback

                    traceback.print_exc()
            counts["agree" if not found else "disagree"] += 1
            for name in {difference[0] for difference in found}:
                fields[name] += 1
            if found:
                bad[case["damage"], case["abort"], source] += 1
            relevant = [difference for difference in found if options.field in difference[0]]
            if relevant and shown < options.show:
                shown += 1
                print(f"--- {case['base']} -> {case['version']}  {case['damage']}  abort={case['abort']}")
                for name, true, predicted in relevant[:8]:
                    print(f"  {name}\n     broker    {true}\n     predicted {predicted}")
    finally:
        shutil.rmtree(options.scratch, ignore_errors=True)
    for source, counts in per_file.items():
        print(f"{source:32} agree {counts['agree']:5}  disagree {counts['disagree']:5}")
    for name, count in fields.most_common():
        print(f"  {count:6} {name}")
    by_damage = Counter()
    for (damage, abort, _), count in bad.items():
        by_damage[damage, abort] += count
    for (damage, abort), count in by_damage.most_common(25):
        print(f"  {count:4} {damage} abort={abort}")
    print(f"{time.monotonic() - began:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
