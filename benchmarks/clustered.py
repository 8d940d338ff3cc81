"""Large stores on a standalone cluster of Spark with two workers of one core each: time, memory, and the same answer as one process."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.engines import EngineRun, timed
from benchmarks.generator import Shape, make_store
from benchmarks.measure import rmqstore
from benchmarks.report import Line, mebibytes
from benchmarks.wide import WideShape, make_wide_store
from tests.pipeline.cluster import CONF, cluster, without_session

_BODY = 128
_TOPICS, _QUEUES, _MESSAGES, _FILES = 10_000, 8, 40, 16
_COMMANDS = ("verify", "stats", "export")
_OF_THE_RUN = {"seconds", "engine", "engine_because", "bytes_per_second", "bytes_read"}


def measure_cluster(directory: Path | None, sizes: Sequence[int], say: Callable[[str], None]) -> Iterator[Line]:
    """Yield lines about stores of these sizes (bytes of log), and one with many queues. Raises RuntimeError where answers differ."""
    with tempfile.TemporaryDirectory(prefix="rmqstore-cluster-", dir=directory) as top, cluster(Path(top)) as master:
        for size in sizes:
            root = Path(top) / "store"
            made = make_store(root, Shape(size, _BODY))
            say(f"made {made.log_bytes} bytes, {made.records} records")
            yield from _lines(f"{size >> 30} GiB, {_BODY} B", root, made.shape.set_options(), master, Path(top))
            shutil.rmtree(root)
        wide = make_wide_store(Path(top) / "wide", WideShape(_TOPICS, _QUEUES, _MESSAGES, log_files=_FILES))
        say(f"made {wide.shape.records} records in {_TOPICS * _QUEUES} queues, {_FILES} log files")
        yield from _lines(f"{_TOPICS:,} x {_QUEUES} queues, {_FILES} files", wide.root, wide.settings, master, Path(top))


def _lines(where: str, root: Path, settings: Sequence[str], master: str, top: Path) -> Iterator[Line]:
    for name in _COMMANDS:
        here, expected = _run(name, root, [*settings, "--engine", "local"], top)
        there, found = _run(name, root, [*settings, "--master", master, *CONF], top)
        if found != expected:
            raise RuntimeError(f"{where}: {name} has another answer on the cluster")
        for engine, run in (("local", here), ("cluster", there)):
            memory = " + ".join(f"{kind} {mebibytes(size)}" for kind, size in run.memory.items())
            ratio = "" if run is here else f"{run.seconds / here.seconds:.1f} x local"
            yield Line(f"{where}: {name}, {engine}", f"{run.seconds:.1f} s", ratio, "", memory)


def _run(name: str, root: Path, options: Sequence[str], top: Path) -> tuple[EngineRun, list[dict[str, Any]]]:
    """Return what a command took, and its answer without what belongs to the run."""
    out = top / "out"
    words = [str(out)] if name == "export" else []
    answer = top / "answer"
    try:
        command = [*rmqstore(), name, str(root), *words, *options, "--quiet", *([] if name == "export" else ["--format", "json"])]
        run = timed(command, sampled=True, answer=answer, environment=without_session())
        if name == "export":
            return run, [{path.name: path.stat().st_size} for path in sorted(out.rglob("part-*"))]
        return run, [{key: value for key, value in json.loads(line).items() if key not in _OF_THE_RUN} for line in answer.open()]
    finally:
        shutil.rmtree(out, ignore_errors=True)
