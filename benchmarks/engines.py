"""Both engines on the same stores: whole processes from start to end, and the memory of all processes that belong to one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.generator import Made
from benchmarks.measure import rmqstore

ENGINES = {
    "local": ("--engine", "local"),
    "local, 1 core": ("--engine", "local", "--threads", "1"),
    "spark": ("--engine", "spark"),
    "spark, 1 core": ("--engine", "spark", "--master", "local[1,3]"),
}
"""Options of a command by engine; without a word about cores, it takes all there are."""
_SAMPLED = 0.1
_MOST_EXPORTED = 2 << 30
_REBUILDS = 3
"""At least so many runs of a rebuild, which is compared with the one of a broker: processors of virtual machines change their speed."""


@dataclass(slots=True)
class EngineRun:
    """One process and its children: wall seconds, and the largest resident memory of each kind, bytes."""

    seconds: float = 0.0
    memory: dict[str, int] = field(default_factory=dict)


def measure(made: Made, repeat: int) -> dict[str, dict[str, EngineRun]]:
    """What each command takes on each engine, by command and engine; the fastest of `repeat` runs."""
    settings = made.shape.set_options()
    commands = {
        "verify": [*rmqstore(), "verify", str(made.root), "--quiet", "--format", "json", *settings],
        "stats": [*rmqstore(), "stats", str(made.root), "--quiet", "--format", "json", *settings],
    }
    if made.log_bytes <= _MOST_EXPORTED:
        commands["export"] = [*rmqstore(), "export", str(made.root), "OUT", "--format", "parquet", "--quiet", *settings]
    found: dict[str, dict[str, EngineRun]] = {}
    for name, command in commands.items():
        found[name] = {engine: _best(made, [*command, *options], repeat) for engine, options in ENGINES.items()}
    rebuilt = [sys.executable, "-m", "benchmarks.rebuilt"]
    more = [str(made.root), "OUT", str(made.log_bytes), *(f"{key}={value}" for key, value in made.shape.settings.items())]
    found["rebuild"] = {engine: _best(made, [*rebuilt, engine, *more], max(repeat, _REBUILDS)) for engine in ("local", "spark")}
    return found


_STARTS = {
    "jobs": "open_context().parallelize(range(2), 2).mapPartitions(list).collect()",
    "SQL": "open_session().range(2).mapInArrow(lambda batches: batches, 'id long').toArrow()",
}


def session_starts(repeat: int) -> dict[str, float]:
    """Seconds of processes that start Spark, let its Python workers do nothing, and end; the fastest."""
    head = "from rmqstore.pipeline.spark.session import *\n"
    return {kind: min(timed([sys.executable, "-c", head + work]).seconds for _ in range(repeat)) for kind, work in _STARTS.items()}


def _best(made: Made, command: Sequence[str], repeat: int) -> EngineRun:
    """The fastest of `repeat` runs, with the memory of one more: looking at all processes again and again slows them down."""
    runs = []
    for number in range(repeat + 1):
        out = Path(tempfile.mkdtemp(prefix="out-", dir=made.root.parent))
        try:
            runs.append(timed([str(out / "made") if part == "OUT" else part for part in command], sampled=number == 0))
        finally:
            shutil.rmtree(out)
    return EngineRun(min(run.seconds for run in runs[1:]), runs[0].memory)


def timed(
    command: Sequence[str], *, sampled: bool = False, answer: Path = Path(os.devnull), environment: Mapping[str, str] | None = None
) -> EngineRun:
    """Runs a process; `answer` gets its standard output. Raises RuntimeError when the process fails."""
    run = EngineRun()
    started = time.perf_counter()
    with (
        answer.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, cwd=Path(__file__).parents[1], env=environment) as process,
    ):
        ended = threading.Event()
        sampler = threading.Thread(target=_sample, args=(process.pid, run, ended))
        if sampled:
            sampler.start()
        _, told = process.communicate()
        run.seconds = time.perf_counter() - started
        ended.set()
        if sampled:
            sampler.join()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {told.decode(errors='replace')[-2000:]}")
    return run


def _sample(root: int, run: EngineRun, ended: threading.Event) -> None:
    while not ended.wait(_SAMPLED):
        now: dict[str, int] = {}
        for pid, name in _family(root):
            kind = "command" if pid == root else "java" if name == "java" else "workers"
            now[kind] = now.get(kind, 0) + _resident(pid)
        for kind, resident in now.items():
            run.memory[kind] = max(run.memory.get(kind, 0), resident)


def _family(root: int) -> list[tuple[int, str]]:
    """(process id, name) of a process and all that come from it."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
                parents[int(entry.name)] = int(rest.split()[1]), name
    members = {root}
    while more := {pid for pid, (parent, _) in parents.items() if parent in members} - members:
        members |= more
    return [(pid, parents[pid][1]) for pid in members if pid in parents]


def _resident(pid: int) -> int:
    """Resident bytes that are not shared with a file: mapped logs are the page cache's."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) << 10
    return 0
