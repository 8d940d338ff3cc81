"""One random damage of one file of a store, whichever it is, and what `doctor` and `verify` say of it.

    python -m tests.damage.any_file --cases 200 [--seed 1] [--base broker-5.5.1-crash] [--below config]

Neither may call a store fine whose content differs in what a broker reads, but with a finding that names the file, as where the next
start writes it again. Which differences no reader can see is in `unseen.py`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from tests.damage.unseen import Place, reason
from tests.support import sparse, stores
from tests.support.cli import rmqstore

OBSERVED = Path(__file__).parents[1] / "doctor" / "observed"
BASES = (
    *("observed-4.9.7", "observed-5.3.3", "observed-5.5.1", "broker-4.9.7-lmq-crash", "broker-5.3.3-cqext-crash", "broker-5.5.1-crash"),
    *("broker-5.5.1-rocksdb-clean", "broker-5.3.3-dledger-clean", "5.3.3-plain", "5.5.1-batchcq", "4.9.8-schedule-crash", "5.2.0-propcrc"),
)
"""Sample stores, and the clean stores of whole brokers in tests/doctor/observed."""
_FINE = "STARTS, NOTHING LOST"
_HEALTHY = "HEALTHY"
_KINDS = {"flip": 30, "noise": 12, "zero": 10, "ones": 4, "truncate": 6, "empty": 4, "delete": 4, "append": 4, "longer": 2}
_LENGTHS = (1, 4, 8, 32, 512, 4096)
_USED = 0.75
"""Share of damages that hit a byte other than zero: most files are zero for the most part."""


@dataclass(frozen=True)
class Base:
    """A store that can be damaged, at `root`, with the settings and the release of its broker."""

    name: str
    root: Path
    settings: Mapping[str, str]
    release: str

    @cached_property
    def groups(self) -> list[list[str]]:
        """The files, in groups that are hit equally often: each file of config/ and the root, all files of another directory."""
        groups: dict[str, list[str]] = defaultdict(list)
        for path in sorted(self.root.rglob("*")):
            if path.is_file():
                name = path.relative_to(self.root).as_posix()
                groups[name if name.startswith("config/") or "/" not in name else name.partition("/")[0]].append(name)
        return [groups[name] for name in sorted(groups)]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the commands say of a damaged store: the first line of `doctor`, the verdict of `verify`, and what is wrong with that."""

    file: str
    damage: str
    headline: str
    verdict: str
    unseen: str | None
    problems: tuple[str, ...]

    @property
    def fine(self) -> bool:
        """Whether both call the store fine."""
        return self.headline == _FINE and self.verdict.startswith(_HEALTHY)


def unpacked(name: str, directory: Path) -> Base:
    """Return an own copy of a base below `directory`."""
    release = name.removeprefix("observed-")
    if release != name:
        from tests.doctor.test_observed_starts import SETTINGS

        sparse.unpack(OBSERVED / f"broker-{release}-clean.tar.xz", directory)
        return Base(name, directory / "store", SETTINGS, release)
    sample = stores.case(name)
    root = stores.fresh_store(name, directory)
    return Base(name, root, sample.settings(root), sample.release)


@contextmanager
def damaged(base: Base, seed: int, below: str = "") -> Iterator[tuple[str, str, bytes]]:
    """Damage one file at random while the context lasts: its name, the damage in words, the bytes that it had."""
    random = Random(f"{base.name}/{seed}")
    groups = [found for group in base.groups if (found := [name for name in group if name.startswith(below)])]
    name = random.choice(random.choice(groups))
    path = base.root / name
    status, before = path.stat(), path.read_bytes()
    try:
        words = _damage(random, path, before)
        if path.exists():
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        yield name, words, before
    finally:
        sparse_write(path, before)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def sparse_write(path: Path, data: bytes) -> None:
    """Write a file without its pages of zeros."""
    with path.open("wb") as stream:
        for match in re.finditer(rb"[^\0][^\0]*(?:\0{1,4095}[^\0]+)*", data):
            stream.seek(match.start())
            stream.write(match[0])
        stream.truncate(len(data))


def _damage(random: Random, path: Path, data: bytes) -> str:
    (kind,) = random.choices(list(_KINDS), list(_KINDS.values()))
    if not data and kind in ("flip", "noise", "zero", "ones", "truncate"):
        kind = "append"
    match kind:
        case "delete":
            path.unlink()
            return kind
        case "empty":
            path.write_bytes(b"")
            return kind
        case "append" | "longer":
            count = random.choice((1, 7, 100))
            path.write_bytes(data + (random.randbytes(count) if kind == "append" else bytes(count)))
            return f"{kind} {count}"
    position = _position(random, data)
    if kind == "truncate":
        os.truncate(path, position)
        return f"{kind} {position}"
    length = 1 if kind == "flip" else min(random.choice(_LENGTHS), len(data) - position)
    new = {"noise": random.randbytes(length), "zero": bytes(length), "ones": b"\xff" * length}.get(kind)
    if new is None:
        new = bytes([data[position] ^ 1 << random.randrange(8)])
    with path.open("r+b") as stream:
        stream.seek(position)
        stream.write(new)
    return f"{kind} {position}+{length}"


def _position(random: Random, data: bytes) -> int:
    position = random.randrange(len(data))
    if random.random() < _USED:
        match = re.compile(rb"[^\0]").search(data, position) or re.search(rb"[^\0]", data)
        return position if match is None else match.start()
    return position


def ask(base: Base, seed: int, below: str = "") -> Answer:
    """Return what is said of the base with the damage of this seed."""
    place = Place(base.root, base.settings)
    with damaged(base, seed, below) as (name, words, before):
        path = base.root / name
        unseen = reason(place, name, before, path.read_bytes() if path.exists() else None)
        options = [word for key, value in base.settings.items() for word in ("--set", f"{key}={value}")]
        doctor = rmqstore("doctor", base.root, "--format", "json", "--broker-version", base.release, *options)
        verify = rmqstore("verify", base.root, "--format", "json", "--threads", "1", *options)
        problems: list[str] = []
        if not doctor.objects or not verify.objects:
            return Answer(name, words, "", "", unseen, (f"no answer: {doctor.err}{verify.err}",))
        diagnosis, summary = doctor.objects[-1], verify.objects[-1]
        problems += _inconsistent(diagnosis, doctor.status)
        answer = Answer(name, words, diagnosis["headline"], summary["verdict"], unseen, ())
        named = any(one.get("file") == name for one in [*doctor.objects, *verify.objects])
        if answer.fine and unseen is None and not named:
            problems.append(f"neither notices it: {answer.verdict}")
        return Answer(name, words, diagnosis["headline"], summary["verdict"], unseen, tuple(problems))


def _inconsistent(diagnosis: dict[str, Any], status: int) -> Iterator[str]:
    headline = diagnosis["headline"]
    if (status == 0) is not (headline == _FINE) or status not in (0, 1):
        yield f"doctor ends with {status}: {headline}"
    if len(headline) > 120 or not headline.startswith(diagnosis["class"]) or not diagnosis["next"]:
        yield f"the first line is {headline}, next {diagnosis['next']}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.damage.any_file", description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=100, metavar="N", help="damages of each base (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first one; case N alone: --seed N --cases 1")
    parser.add_argument("--base", action="append", choices=BASES)
    parser.add_argument("--below", default="", metavar="PATH", help="only files whose path begins so")
    options = parser.parse_args()
    wrong = 0
    for name in options.base or BASES:
        with tempfile.TemporaryDirectory() as directory:
            base = unpacked(name, Path(directory))
            reasons: dict[str, int] = defaultdict(int)
            for seed in range(options.seed, options.seed + options.cases):
                answer = ask(base, seed, options.below)
                reasons["noticed" if not answer.fine else answer.unseen or "not noticed"] += 1
                for problem in answer.problems:
                    wrong += 1
                    print(f"{name} --seed {seed}: {answer.file}, {answer.damage}: {problem}", flush=True)
            print(f"{name}: {options.cases} damages, {dict(sorted(reasons.items()))}", flush=True)
            shutil.rmtree(base.root, ignore_errors=True)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
