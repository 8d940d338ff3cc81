"""The table that people read: what was measured, as a share of what the memory of this machine gives, beside what was promised."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.engines import EngineRun
from benchmarks.generator import Made
from benchmarks.measure import Runs
from benchmarks.rebuilding import BROKERS

_MEMORY_GROWTH = 0.10
_DUMPED_PER_SECOND = 500_000
_REBUILT_PER_SECOND = 4_500_000
_SPARK_FACTOR = 8
_MET = {None: "", True: "yes", False: "NO"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table; `met` is None where nothing was promised."""

    name: str
    value: str
    ratio: str = ""
    processor_ratio: str = ""
    promised: str = ""
    met: bool | None = None


def _speed(runs: Runs) -> str:
    return f"{runs.rate / 1e9:.2f} GB/s"


def log_lines(body_length: int, runs: dict[str, Runs]) -> Iterator[Line]:
    """Lines about one store. The base of every ratio is the mapped log in the page cache, summed by one thread."""
    where = f"{body_length} B"
    base = runs["mapped"]
    yield Line(f"{where}: read mapped file", _speed(base), "100 %", "100 %")
    yield Line(f"{where}: read, new mapping", *_ratios(runs["mapped_new"], base))
    promises = {("scan_crc", 1024): 0.60, ("scan_crc", 128): 0.25, ("verify_2_alone", 1024): 0.30}
    names = {
        "scan": "scan, 1 thread",
        "scan_crc": "scan with CRC, 1 thread",
        "scan_all": "scan with CRC and key hashes, 1 thread",
        "scan_new": "scan with CRC, new windows",
        "verify_1_alone": "verify, 1 thread",
        "verify_2_alone": "verify, 2 threads",
        "verify_1": "verify, 1 thread, whole process",
        "verify_2": "verify, 2 threads, whole process",
        "predict": "prediction of a start after a crash, whole process",
        "diff": "comparison of all bytes with a copy, both read, whole process",
        "snapshot": "snapshot, verified, whole process",
    }
    for key, text in names.items():
        value, ratio, processor_ratio = _ratios(runs[key], base)
        promise = promises.get((key, body_length))
        met = None if promise is None else runs[key].rate / base.rate >= promise
        promised = "" if promise is None else f">= {100 * promise:.0f} %"
        yield Line(f"{where}: {text}", value, ratio, processor_ratio, promised, met)
    for threads in (1, 2):
        yield Line(f"{where}: verify, peak memory with {threads} thread{'s' * (threads > 1)}", mebibytes(runs[f"verify_{threads}"].peak))
    value, promised = f"{runs['dump'].rate / 1e3:.0f} k records/s", ">= 500 k/s" if body_length == 128 else ""
    met = runs["dump"].rate >= _DUMPED_PER_SECOND if promised else None
    yield Line(f"{where}: dump --format json, 2 threads", value, promised=promised, met=met)


def rebuild_lines(body_length: int, runs: dict[str, Runs]) -> Iterator[Line]:
    """Lines about the rebuild of one store, ours and how many times as fast it is as those of brokers."""
    where, mine = f"{body_length} B", runs["rebuild"]
    name, value = f"{where}: rebuild of queues and index", f"{mine.rate / 1e6:.2f} M messages/s"
    if any(release in runs for release in BROKERS):
        yield Line(name, value)
    else:
        yield Line(name, value, promised=f">= {_REBUILT_PER_SECOND / 1e6} M/s", met=mine.rate >= _REBUILT_PER_SECOND)
    yield Line(f"{where}: the same by processor time", f"{(mine.processor_rate or 0) / 1e6:.2f} M messages/s")
    for release, factor in BROKERS.items():
        if release in runs:
            times = mine.rate / runs[release].rate
            value = f"{runs[release].rate / 1e3:.0f} k messages/s"
            yield Line(f"{where}: rebuild by broker {release}", value, f"1 : {times:.0f}", "", f"1 : {factor}", times >= factor)


def engine_lines(where: str, made: Made, found: dict[str, dict[str, EngineRun]], theirs: Runs | None) -> Iterator[Line]:
    """Lines about both engines on one store, and how many times as fast they rebuild as the 5.3.3 broker."""
    for name, by_engine in found.items():
        here = by_engine["local"].seconds
        for engine, run in by_engine.items():
            memory = " + ".join(f"{kind} {mebibytes(size)}" for kind, size in run.memory.items())
            ratio = "" if engine == "local" else f"{run.seconds / here:.1f} x local"
            yield Line(f"{where}: {name}, {engine}", f"{run.seconds:.1f} s", ratio, "", memory)
    if theirs is not None:
        broker = made.records / theirs.rate
        times = broker / found["rebuild"]["spark"].seconds
        yield Line(f"{where}: rebuild by broker 5.3.3", f"{broker:.1f} s", f"Spark 1 : {times:.0f}", "", "1 : 8", times >= _SPARK_FACTOR)


def _ratios(runs: Runs, base: Runs) -> tuple[str, str, str]:
    """Speed, and its share of the base in wall time and in processor time."""
    processor = f"{100 * runs.processor_rate / base.processor_rate:.0f} %" if runs.processor_rate and base.processor_rate else ""
    return _speed(runs), f"{100 * runs.rate / base.rate:.0f} %", processor


def start_lines(runs: dict[str, Runs]) -> Iterator[Line]:
    """Lines about how long it takes to start."""
    for key, text, limit in (("help", "--help", 0.25), ("dump_one", "dump --limit 1 of a log file", 0.6)):
        seconds = min(runs[key].seconds)
        yield Line(text, f"{seconds:.3f} s", promised=f"< {limit} s", met=seconds < limit)


def memory_lines(body_length: int, peaks: dict[int, int]) -> Iterator[Line]:
    """Lines about the peak memory of verify, by size of the store (GiB)."""
    small = peaks[min(peaks)]
    for size, peak in sorted(peaks.items()):
        if peak is small:
            yield Line(f"{body_length} B: verify of {size} GiB, peak", mebibytes(peak))
        else:
            growth = peak / small - 1
            text = f"{100 * growth:+.0f} %"
            yield Line(f"{body_length} B: verify of {size} GiB, peak", mebibytes(peak), text, "", "+-10 %", abs(growth) <= _MEMORY_GROWTH)


def mebibytes(count: int) -> str:
    """Return a number of bytes as text."""
    return f"{count / 2**20:.0f} MiB"


Row = tuple[str, str, str, str, str, str]
HEADING: Row = ("what", "fastest", "ratio", "processor", "promised", "")


def table(lines: list[Line], heading: Row = HEADING) -> str:
    """Return plain text in columns."""
    rows = [heading]
    rows += [(line.name, line.value, line.ratio, line.processor_ratio, line.promised, _MET[line.met]) for line in lines]
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    return "\n".join(_row(row, widths) for row in rows)


def _row(row: Row, widths: list[int]) -> str:
    cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
    return "  ".join(cells).rstrip()


def with_figures(page: str, figures: str, block: str = "figures") -> str:
    """The page with `figures` as its block of that name."""
    begin, end = f"<!-- {block} -->\n", f"<!-- end of {block} -->\n"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    if not after:
        raise ValueError("the page has no place for figures")
    return f"{before}{begin}```text\n{figures}\n```\n{end}{after}"
