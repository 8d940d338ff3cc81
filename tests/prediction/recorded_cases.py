"""The recorded cases, and a working copy of a sample store that is damaged for one case and mended for the next."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support import operations
from tests.support.operations import Op
from tests.support.stores import case as sample_case
from tests.support.stores import sample_store

TRUTH = Path(__file__).parent / "truth"
Case = Mapping[str, Any]


def truth_files() -> list[str]:
    """Names of the files with recorded cases."""
    return sorted(path.name.removesuffix(".jsonl.gz") for path in TRUTH.glob("*.jsonl.gz"))


def cases_of(name: str) -> Iterator[Case]:
    """The cases of one file."""
    with gzip.open(TRUTH / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def operation(recorded: Mapping[str, Any]) -> Op:
    """A recorded operation as one that can be applied."""
    path = recorded["path"]
    match recorded["op"]:
        case "write":
            return operations.Write(path, recorded["at"], bytes.fromhex(recorded["hex"]))
        case "xor":
            return operations.Flip(path, recorded["at"], recorded["mask"])
        case "zero":
            return operations.Zero(path, recorded["at"], recorded["len"])
        case "noise":
            return operations.Noise(path, recorded["at"], recorded["len"], recorded["seed"])
        case "move":
            return operations.Move(path, recorded["at"], recorded["from"], recorded["from_at"], recorded["len"])
        case "resize":
            return operations.Resize(path, recorded["len"])
        case "create":
            return operations.Create(path, bytes.fromhex(recorded.get("hex", "")), recorded.get("len", 0))
        case "copy":
            return operations.Copy(path, recorded["from"])
        case "delete":
            return operations.Delete(path)
        case "mkdir":
            return operations.MakeDirectory(path)
        case unknown:
            raise ValueError(f"unknown operation {unknown}")


def recorded(operation: Op) -> dict[str, Any]:
    """An operation as it is recorded."""
    path = {"path": operation.path}
    match operation:
        case operations.Write(_, position, data):
            return {"op": "write", **path, "at": position, "hex": data.hex()}
        case operations.Flip(_, position, mask):
            return {"op": "xor", **path, "at": position, "mask": mask}
        case operations.Zero(_, position, length):
            return {"op": "zero", **path, "at": position, "len": length}
        case operations.Noise(_, position, length, seed):
            return {"op": "noise", **path, "at": position, "len": length, "seed": seed}
        case operations.Move(_, position, source, source_position, length):
            return {"op": "move", **path, "at": position, "from": source, "from_at": source_position, "len": length}
        case operations.Resize(_, length):
            return {"op": "resize", **path, "len": length}
        case operations.Create(_, data, length):
            return {"op": "create", **path, "hex": data.hex(), "len": length}
        case operations.Copy(_, source):
            return {"op": "copy", **path, "from": source}
        case operations.Delete():
            return {"op": "delete", **path}
        case operations.MakeDirectory():
            return {"op": "mkdir", **path}
        case unknown:
            raise ValueError(f"unknown operation {unknown}")


class WorkingStore:
    """A copy of a sample store; only what a case touched is copied again before the next one."""

    def __init__(self, name: str, scratch: Path) -> None:
        self._case = sample_case(name)
        self._original = sample_store(name)
        self.root = scratch / name
        shutil.copytree(self._original, self.root)

    def settings(self, case: Case) -> dict[str, str]:
        """Settings of the store, and those that the case adds; the ones of the broker itself are marked by a prefix there."""
        added = {key.removeprefix("broker."): str(value) for key, value in case.get("settings", {}).items()}
        return self._case.settings(self.root) | added

    def damage(self, case: Case) -> None:
        operations.apply(map(operation, case["ops"]), self.root)
        abort = self.root / "abort"
        if case["abort"] == "yes":
            abort.touch() if not abort.exists() else None
        else:
            operations.Delete("abort").apply(self.root)

    def mend(self, case: Case) -> None:
        for name in sorted({"abort", *(recorded["path"] for recorded in case["ops"])}):
            path, original = self.root / name, self._original / name
            operations.Delete(name).apply(self.root)
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

    def paths(self) -> set[str]:
        """Everything below the root, directories with a trailing slash."""
        found = set()
        for directory, names, files in os.walk(self.root):
            below = os.path.relpath(directory, self.root) + "/"
            found |= {(below + name).removeprefix("./") for name in (*(name + "/" for name in names), *files)}
        return found
