"""The measurements: memory reads and scans in this process, commands of `rmqstore` as processes of their own.

Every measurement is repeated and keeps all its runs; the fastest speaks, because the others tell what else the machine had to do.
One-thread work is timed in wall time and in processor time.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.generator import Made
from benchmarks.resident import ResidentFile
from rmqstore.formats.delay import DEFAULT_DELAY_LEVELS
from rmqstore.scan.columns import Check
from rmqstore.scan.walk import Batch, LogScanner, Windows
from rmqstore.store.root import Store
from rmqstore.store.window import Window, map_window

LAUNCHER = Path(__file__).with_name("launcher.py")


@dataclass(slots=True)
class Runs:
    """Runs of one measurement: `amount` is what each of them got through (bytes or records)."""

    amount: int
    seconds: list[float] = field(default_factory=list)
    processor_seconds: list[float] = field(default_factory=list)
    peak_bytes: list[int] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Amount per second of wall time, of the fastest run."""
        return self.amount / min(self.seconds)

    @property
    def processor_rate(self) -> float | None:
        """Amount per second of processor time, of the fastest run; None where that was not measured."""
        return self.amount / min(self.processor_seconds) if self.processor_seconds else None

    @property
    def peak(self) -> int:
        """Largest peak of resident memory of all runs, bytes."""
        return max(self.peak_bytes)

    def as_json(self) -> dict[str, Any]:
        return {
            "amount": self.amount,
            "per_second": round(self.rate),
            "per_processor_second": self.processor_rate and round(self.processor_rate),
            "seconds": [round(value, 4) for value in self.seconds],
            "processor_seconds": [round(value, 4) for value in self.processor_seconds],
            "peak_bytes": self.peak_bytes,
        }


def _timed(runs: Runs, work: Callable[[], object]) -> None:
    wall, processor = time.perf_counter(), time.thread_time()
    work()
    runs.seconds.append(time.perf_counter() - wall)
    runs.processor_seconds.append(time.thread_time() - processor)


def read_memory(length: int, repeat: int) -> Runs:
    """Sums `length` bytes of anonymous memory as uint64, one thread; the pages are there before."""
    words = np.ones(length // 8, np.uint64)
    runs = Runs(words.nbytes)
    for _ in range(repeat + 1):
        _timed(runs, words.sum)
    return _without_first(runs)


def read_and_scan(made: Made, repeat: int) -> dict[str, Runs]:
    """Reads of the mapped log and scans of it by turns, one thread, everything in the page cache.

    `mapped`: uint64 sum over a mapping whose pages were touched before; `mapped_new`: over one that was just made, as any reader of a
    file has to make one. `scan`: structure and columns, over the mapping that `mapped` reads; `scan_crc`: with the CRC of every body;
    `scan_all`: with CRC and key hashes; `scan_new`: as `scan_crc`, in windows that are mapped anew, as commands do it.
    """
    checks = {"scan": Check(0), "scan_crc": Check.BODY_CRC, "scan_all": Check.BODY_CRC | Check.KEYS}
    log_length = sum(path.stat().st_size for path in made.log_files)
    found = {"mapped": Runs(log_length), "mapped_new": Runs(log_length)}
    found |= {name: Runs(made.log_bytes) for name in (*checks, "scan_new")}
    with ExitStack() as stack:
        resident = [stack.enter_context(ResidentFile(path)) for path in made.log_files]
        for _ in range(repeat + 1):
            _timed(found["mapped_new"], lambda: _sum_anew(made.log_files))
            _timed(found["mapped"], lambda: [each.words.sum() for each in resident])
            for name, check in checks.items():
                _timed(found[name], lambda check=check: _scan(made, check, _windows_of(resident)))  # type: ignore[misc]
            _timed(found["scan_new"], lambda: _scan(made, Check.BODY_CRC, map_window))
    return {name: _without_first(runs) for name, runs in found.items()}


def _windows_of(files: Sequence[ResidentFile]) -> Windows:
    """Windows into mappings that stay."""
    bytes_of = {file.path: file.words.view(np.uint8) for file in files}
    return lambda file, position, length: Window(None, bytes_of[file.path][position : position + length])


def _sum_anew(paths: Sequence[Path]) -> None:
    for path in paths:
        with ResidentFile(path) as file:
            file.words.sum()


def _scan(made: Made, checks: Check, windows: Windows) -> None:
    scanner = LogScanner(checks=checks, delays=DEFAULT_DELAY_LEVELS, windows=windows)
    records = 0
    for file in Store.open(made.root, settings=made.shape.settings).commitlog.files:
        for event in scanner.scan(file):
            if isinstance(event, Batch):
                records += event.records.size
    if records != made.records:
        raise RuntimeError(f"the scan saw {records} records, {made.records} were written")


def _without_first(runs: Runs) -> Runs:
    """The first run warms up: pages, compiled code, the clock of the processor."""
    del runs.seconds[0], runs.processor_seconds[0]
    return runs


def command(amount: int, repeat: int, *arguments: str | Path, piped: bool = False) -> tuple[Runs, list[str]]:
    """Runs `rmqstore ARGUMENTS` as a process; what each run took and printed. Raises RuntimeError for a status other than 0."""
    runs, outputs = Runs(amount), []
    launcher = [sys.executable, "-S", "-E", str(LAUNCHER), *(["--pipe"] if piped else [])]
    for _ in range(repeat):
        done = subprocess.run([*launcher, *rmqstore(), *map(str, arguments)], stdout=subprocess.PIPE, check=True)
        took = json.loads(done.stdout)
        if took["status"] != 0:
            raise RuntimeError(f"rmqstore {' '.join(map(str, arguments))} ended with status {took['status']}: {took['output'][-2000:]}")
        runs.seconds.append(took["seconds"])
        runs.processor_seconds.append(took["processor_seconds"])
        runs.peak_bytes.append(took["peak_bytes"])
        outputs.append(took["output"])
    return runs, outputs


def rmqstore() -> list[str]:
    """The installed command, or the module where there is none."""
    script = Path(sys.executable).with_name("rmqstore")
    return [str(script)] if script.exists() else [sys.executable, "-m", "rmqstore"]


def verify(made: Made, threads: int, repeat: int) -> tuple[Runs, Runs]:
    """`rmqstore verify` of the whole store: (the process from start to end, the verification alone as its summary has it).

    Raises RuntimeError when it finds an error or counts other records or keys than were written.
    """
    settings = made.shape.set_options()
    options = ("--threads", str(threads), "--format", "json", "--quiet", *settings)
    runs, outputs = command(made.log_bytes, repeat, "verify", made.root, *options)
    alone = Runs(made.log_bytes)
    for output in outputs:
        summary = json.loads(output.splitlines()[-1])
        if summary["records"] != made.records or summary["indexed_keys"] != made.keys or summary["severities"]["error"]:
            raise RuntimeError(f"verify of the store that was made says {summary}")
        alone.seconds.append(summary["seconds"])
    return runs, alone


def predict(made: Made, repeat: int) -> Runs:
    """`rmqstore recover --dry-run` of a broker that starts after a crash and reads the log from its first byte on; whole processes."""
    settings = made.shape.set_options()
    crash = ("--what-if", "abort=present", "checkpoint=removed", "--format", "json", "--quiet")
    runs, outputs = command(made.log_bytes, repeat, "recover", made.root, "--dry-run", *crash, *settings)
    for output in outputs:
        scanned = json.loads(output.splitlines()[0])["scan"]
        if scanned["records"] != made.records or scanned["first_file"] != made.log_files[0].name:
            raise RuntimeError(f"the prediction read {scanned}, {made.records} records were written")
    return runs


def diff(made: Made, repeat: int) -> Runs:
    """`rmqstore diff --deep` of the store and a copy of it: both logs are read; whole processes. Raises RuntimeError where they differ."""
    copy = made.root.with_name("copy")
    shutil.copytree(made.root, copy)
    try:
        options = ("--deep", "--format", "json", "--quiet", *made.shape.set_options())
        runs, outputs = command(2 * made.log_bytes, repeat, "diff", made.root, copy, *options)
    finally:
        shutil.rmtree(copy)
    for output in outputs:
        found = json.loads(output.splitlines()[0])
        if found["relation"] != "same" or not found["whole"]:
            raise RuntimeError(f"diff of a store and its copy says {found['verdict']}")
    return runs


def snapshot(made: Made, repeat: int) -> Runs:
    """`rmqstore snapshot` into a new directory beside the store, which is removed after each run; whole processes, bytes of the log."""
    runs, target = Runs(made.log_bytes), made.root.with_name("snapshot")
    for _ in range(repeat):
        try:
            one, _ = command(made.log_bytes, 1, "snapshot", made.root, target, "--quiet", *made.shape.set_options())
        finally:
            shutil.rmtree(target, ignore_errors=True)
            target.with_name(f"{target.name}.manifest.json").unlink(missing_ok=True)
        runs.seconds += one.seconds
        runs.processor_seconds += one.processor_seconds
        runs.peak_bytes += one.peak_bytes
    return runs


def dump(made: Made, threads: int, repeat: int) -> Runs:
    """`rmqstore dump --format json` of the whole log, without bodies, through a pipe; counts records."""
    return command(made.records, repeat, "dump", made.root, "--format", "json", "--threads", str(threads), "--quiet", piped=True)[0]


def start_up(made: Made, repeat: int) -> dict[str, Runs]:
    """`--help`, and `dump --limit 1` of one file of the log; the first of each warms up."""
    lines: dict[str, tuple[str | Path, ...]] = {"help": ("--help",), "dump_one": ("dump", made.log_files[0], "--limit", "1")}
    for arguments in lines.values():
        command(1, 1, *arguments)
    return {name: command(1, repeat, *arguments)[0] for name, arguments in lines.items()}
