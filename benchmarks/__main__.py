"""`python -m benchmarks`: makes stores, measures everything in one run, prints a table and writes JSON.

python -m benchmarks                        2 GiB of log with bodies of 128 B and the same with bodies of 1 KiB
python -m benchmarks --memory               also peak memory of `verify` for 1 GiB and 4 GiB
python -m benchmarks --rebuild              the rebuild of queues and index instead, beside that of real brokers where Java 17 and Maven are
python -m benchmarks --engines              threads of one process and Spark instead, on stores of 1, 4 and 16 GiB
python -m benchmarks --cluster              large stores on a cluster of Spark with two workers on this machine instead
python -m benchmarks --shapes               how the cost of commands grows with queues, files, groups and damages instead
python -m benchmarks --size 256M --repeat 3
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import engines, measure, rebuilding, report, shapes
from benchmarks.generator import LOG_FILE_SIZE, Made, Shape, make_store, settle
from benchmarks.measure import Runs
from benchmarks.resident import held
from rmqstore.formats import consumequeue, index

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_OUT = Path(__file__).parent / "out" / "results.json"
_DOCS = Path(__file__).parents[1] / "docs" / "performance.md"
_MEMORY_SIZES = (1, 4)
_QUIET = 0.7  # load average
_START_UPS = 11
_DUMPS = 3
_SIZE_BESIDE_BROKER = 4 << 30


def size(text: str) -> int:
    """Bytes of `1073741824`, `64M`, `2G`."""
    unit = _UNITS.get(text[-1:].upper())
    return int(text[:-1]) * unit if unit else int(text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=size, default=2 << 30, help="commit log of each store (default 2G)")
    parser.add_argument("--bodies", default="128,1024", help="body lengths, one store each (default %(default)s)")
    parser.add_argument("--log-file-size", type=size, default=LOG_FILE_SIZE, help="default 1G")
    parser.add_argument("--queue-file-size", type=size, default=consumequeue.DEFAULT_FILE_SIZE, help="default %(default)s")
    parser.add_argument("--slots", type=int, default=index.DEFAULT_HASH_SLOT_NUM, help="hash slots of an index file (default %(default)s)")
    parser.add_argument("--items", type=int, default=index.DEFAULT_INDEX_NUM, help="items of an index file (default %(default)s)")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each measurement (default %(default)s)")
    parser.add_argument("--memory", action="store_true", help="also peak memory of verify for 1 GiB and 4 GiB of log, shortest bodies")
    parser.add_argument("--rebuild", action="store_true", help="measure the rebuild of queues and index, ours and that of real brokers")
    parser.add_argument("--engines", action="store_true", help="measure both engines, and the rebuild by a real broker")
    parser.add_argument("--engine-sizes", default="1G,4G,16G", help="commit logs of the stores of --engines (default %(default)s)")
    parser.add_argument("--cluster", action="store_true", help="measure large stores on a cluster of two workers on this machine")
    parser.add_argument("--cluster-sizes", default="8G", help="commit logs of the stores of --cluster (default %(default)s)")
    parser.add_argument("--shapes", action="store_true", help="measure how the cost of commands grows in each dimension of a store")
    parser.add_argument("--quick", action="store_true", help="with --shapes: sixteen times smaller stores")
    parser.add_argument("--directory", type=Path, default=None, help="where the stores are made (default: the temporary directory)")
    parser.add_argument("--keep", action="store_true", help="leave the stores there")
    parser.add_argument("--output", type=Path, default=_OUT, help="JSON file (default benchmarks/out/results.json)")
    parser.add_argument("--docs", action="store_true", help="put the figures into docs/performance.md")
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def _store(options: argparse.Namespace, log_size: int, body_length: int) -> Iterator[Made]:
    """A store on disk and in memory, removed at the end."""
    root = Path(tempfile.mkdtemp(prefix=f"rmqstore-bench-{body_length}-", dir=options.directory))
    try:
        shape = Shape(log_size, body_length, options.log_file_size, options.queue_file_size, options.slots, options.items)
        made = make_store(root / "store", shape)
        settle(made)
        _say(f"made {made.log_bytes} bytes, {made.records} records with bodies of {body_length} B in {made.seconds:.1f} s: {made.root}")
        with held(made.root) as kept:
            if not kept:
                _say("  its pages cannot be locked in memory: the figures may be those of the disk")
            yield made
    finally:
        if not options.keep:
            shutil.rmtree(root, ignore_errors=True)


def _measure_store(made: Made, repeat: int) -> dict[str, Runs]:
    runs = measure.read_and_scan(made, repeat)
    _say("  read and scanned")
    for threads in (1, 2):
        runs[f"verify_{threads}"], runs[f"verify_{threads}_alone"] = measure.verify(made, threads, repeat)
    _say("  verified")
    runs["predict"] = measure.predict(made, repeat)
    _say("  predicted")
    runs["diff"] = measure.diff(made, repeat)
    runs["snapshot"] = measure.snapshot(made, repeat)
    _say("  compared and copied")
    runs["dump"] = measure.dump(made, 2, min(repeat, _DUMPS))
    _say("  dumped")
    return runs


def _measure_rebuild(made: Made, repeat: int) -> dict[str, Runs]:
    runs = {"rebuild": rebuilding.ours(made, repeat)}
    _say("  rebuilt")
    for release in rebuilding.BROKERS:
        theirs = rebuilding.broker(made, release)
        if theirs is not None:
            runs[release] = theirs
            _say(f"  rebuilt by {release}")
    return runs


def _measure_engines(options: argparse.Namespace, body_lengths: list[int]) -> Iterator[report.Line]:
    for kind, start in engines.session_starts(max(options.repeat, 3)).items():
        yield report.Line(f"Spark for {kind}: start, a task in Python, end", f"{start:.1f} s")
    for text in options.engine_sizes.split(","):
        for body_length in body_lengths:
            with _store(options, size(text), body_length) as made:
                found = engines.measure(made, options.repeat)
                _say("  measured")
                theirs = rebuilding.broker(made, "5.3.3") if size(text) == _SIZE_BESIDE_BROKER else None
                yield from report.engine_lines(f"{text.replace('G', ' GiB')}, {body_length} B", made, found, theirs)


def _machine() -> dict[str, Any]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average_before": os.getloadavg(),
    }


def main() -> int:
    """Measures, prints, writes; 1 when a promise was not kept."""
    options = _arguments()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the stores are removed
    started = time.perf_counter()
    machine = _machine()
    results: dict[str, Any] = {"machine": machine, "repeat": options.repeat, "stores": {}, "memory": {}}
    if options.shapes:
        return _shapes(options, results, started)
    if options.cluster:
        return _cluster(options, results, started)
    memory = measure.read_memory(1 << 30, options.repeat)
    results["read_anonymous_memory"] = memory.as_json()
    lines = [report.Line("read 1 GiB of anonymous memory", f"{memory.rate / 1e9:.2f} GB/s")]
    starts: dict[str, Runs] = {}
    body_lengths = [int(text) for text in options.bodies.split(",")]
    if options.engines:
        for line in _measure_engines(options, body_lengths):
            lines.append(line)
            _say(report.table(lines[-1:]))
    for body_length in [] if options.engines else body_lengths:
        with _store(options, options.size, body_length) as made:
            runs = (_measure_rebuild if options.rebuild else _measure_store)(made, options.repeat)
            starts = starts or ({} if options.rebuild else measure.start_up(made, _START_UPS))
            results["stores"][body_length] = {
                "log_bytes": made.log_bytes,
                "records": made.records,
                "keys": made.keys,
                "runs": {name: each.as_json() for name, each in runs.items()},
            }
        lines += (report.rebuild_lines if options.rebuild else report.log_lines)(body_length, runs)
        _say(report.table(lines))
    lines += report.start_lines(starts) if starts else ()
    results["start_up"] = {name: each.as_json() for name, each in starts.items()}
    if options.memory:
        # The shortest bodies are the hardest case: the most records, units and items for a size.
        body_length = min(body_lengths)
        peaks: dict[int, int] = {}
        for gibibytes in _MEMORY_SIZES:
            with _store(options, gibibytes << 30, body_length) as made:
                peaks[gibibytes] = measure.verify(made, 2, 1)[0].peak
        results["memory"][body_length] = peaks
        lines += report.memory_lines(body_length, peaks)
    block = "engines" if options.engines else "rebuild" if options.rebuild else "figures"
    return _finish(options, results, started, lines, block)


def _shapes(options: argparse.Namespace, results: dict[str, Any], started: float) -> int:
    """Measure the growth in each dimension; 1 if an exponent is above the goal."""
    growths = list(shapes.measure_shapes(options.directory, quick=options.quick, say=_say))
    results["shapes"] = shapes.as_json(growths)
    return _finish(options, results, started, list(shapes.lines(growths)), "shapes", shapes.HEADING)


def _cluster(options: argparse.Namespace, results: dict[str, Any], started: float) -> int:
    """Measure large stores on a cluster."""
    from benchmarks import clustered

    lines = []
    for line in clustered.measure_cluster(options.directory, [size(text) for text in options.cluster_sizes.split(",")], _say):
        lines.append(line)
        _say(report.table(lines[-1:]))
    return _finish(options, results, started, lines, "cluster")


def _finish(
    options: argparse.Namespace,
    results: dict[str, Any],
    started: float,
    lines: list[report.Line],
    block: str,
    heading: report.Row = report.HEADING,
) -> int:
    """Print and write everything; 1 if a promise was not kept."""
    results["machine"]["load_average_after"] = os.getloadavg()
    results["commit"] = _commit()
    results["seconds"] = round(time.perf_counter() - started, 1)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=2) + "\n")
    figures = f"{report.table(lines, heading)}\n\n{_circumstances(results)}"
    print(figures)
    print(f"written to {options.output}")
    if options.docs:
        _DOCS.write_text(report.with_figures(_DOCS.read_text("utf-8"), figures, block), "utf-8")
    return int(any(line.met is False for line in lines))


def _circumstances(results: dict[str, Any]) -> str:
    machine = results["machine"]
    before, after = machine["load_average_before"][0], machine["load_average_after"][0]
    load = f"load average {before:.1f} when it began, {after:.1f} when it ended"
    if before > _QUIET:
        load += ": other programs ran at the same time"
    runs = "the fastest of two runs of less than 1.5 s" if "shapes" in results else f"the fastest of {results['repeat']} runs"
    where = f"{machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}, Python {machine['python']}"
    return f"{where}\ncommit {results['commit']}; {runs}; {load}; {results['seconds']:.0f} s in all"


def _commit() -> str | None:
    try:
        done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() or None


if __name__ == "__main__":
    sys.exit(main())
