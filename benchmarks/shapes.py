"""Measure how the cost of commands grows with each dimension of a store: bytes, log files, queues, files, consumer groups, damages.

Each dimension has stores of three sizes, a factor of 4 apart; all else stays small. Every command runs as a process of its own with 1,024
file descriptors. The exponent of the growth is the slope of logarithms: processor seconds above those of the store without that dimension,
by size.
"""

from __future__ import annotations

import json
import math
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import measure, report
from benchmarks.wide import WideShape, WideStore, make_wide_store

DESCRIPTORS = 1024
GOAL = 1.05
_FACTOR = 4
_POINTS = 3
_QUICK = 16
"""The divisor of all sizes of `--shapes --quick`."""
_MEASURABLE = 0.3
"""Share of the seconds at size 0 by which a point must be above them to count for the exponent: less is noise."""
_AGAIN_BELOW = 1.5
"""Processor seconds below which a run is repeated."""

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "info": (),
    "verify": (),
    "doctor": (),
    "predict": (),
    "stats": (),
    "rebuild-consumequeue": ("--yes",),
}
"""Commands and their options. The last one works on a store without queues and changes it."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension: `largest` units of it at most, the shape of a store with so many, and the damage to do to it."""

    name: str
    largest: int
    shape: Callable[[int], WideShape]
    damage: Callable[[Path, int], None] = lambda root, count: None
    status: int = 0

    def sizes(self, divisor: int) -> list[int]:
        """Return the sizes to measure, ascending."""
        return [max(self.largest // divisor // _FACTOR**power, 1) for power in reversed(range(_POINTS))]


def damage_bodies(root: Path, count: int) -> None:
    """Change the body of `count` records of the only log file, at equal distances."""
    (path,) = (root / "commitlog").iterdir()
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[:4], "big")
    records = [begin for begin in range(0, len(data), length) if data[begin : begin + 4] == data[:4]]
    body = data.index(bytes(32))
    for number in range(count):
        data[records[number * len(records) // count] + body] ^= 0xFF
    path.write_bytes(data)


HEADING: report.Row = ("what", "processor seconds", "exponent", "peak", "goal", "")

_MESSAGES = 800  # of the dimension of bytes

DIMENSIONS = (
    Dimension("bytes of log", 1 << 30, lambda size: WideShape(topics=25, messages=4, body=max(size // _MESSAGES - 400, 64))),
    Dimension("files of log", 1024, lambda count: WideShape(topics=25, messages=41, log_files=max(count, 1))),
    Dimension("queues", 8_000, lambda count: WideShape(topics=max(count // 8, 1))),
    # Two entries a file: a broker cannot cut files of one.
    Dimension("files per queue", 80, lambda count: WideShape(topics=12, messages=max(2 * count, 2), queue_files=max(count, 1))),
    Dimension("offsets of consumer groups", 320_000, lambda count: WideShape(topics=125, groups=count // 1000)),
    Dimension("multi-dispatch queues", 8_000, lambda count: WideShape(topics=10, light=count)),
    Dimension("damaged records", 4_000, lambda count: WideShape(topics=125, messages=5), damage_bodies, status=1),
)


@dataclass(frozen=True, slots=True)
class Point:
    """A command on one store: processor seconds of the fastest run, and its peak of resident bytes."""

    seconds: float
    peak: int


@dataclass(frozen=True, slots=True)
class Growth:
    """A command in one dimension: its points by size, and the processor seconds at size 0."""

    dimension: str
    command: str
    points: Mapping[int, Point]
    start: float

    @property
    def exponent(self) -> float | None:
        """Return the slope of the logarithms; None if fewer than two points are measurably above size 0."""
        above = {size: point.seconds - self.start for size, point in self.points.items()}
        least = _MEASURABLE * self.start
        logarithms = [(math.log(size), math.log(seconds)) for size, seconds in above.items() if seconds >= least]
        return slope(logarithms) if len(logarithms) > 1 else None


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the straight line with the least squares through points."""
    middle = sum(x for x, _ in points) / len(points)
    return sum((x - middle) * y for x, y in points) / sum((x - middle) ** 2 for x, _ in points)


def measure_shapes(directory: Path | None, *, quick: bool, say: Callable[[str], None]) -> Iterator[Growth]:
    """Yield the growth of every command in every dimension, on stores that are made in `directory` and removed."""
    divisor = _QUICK if quick else 1
    for dimension in DIMENSIONS:
        measured: dict[int, dict[str, Point]] = {}
        for size in (0, *dimension.sizes(divisor)):
            measured[size] = _measure(dimension.shape(size), directory, lambda root: dimension.damage(root, size), dimension.status)  # noqa: B023
            say(f"  {dimension.name}: {size:,}")
        for command in COMMANDS:
            points = {size: by_command[command] for size, by_command in measured.items()}
            yield Growth(dimension.name, command, points, points.pop(0).seconds)


def _measure(shape: WideShape, directory: Path | None, damage: Callable[[Path], None], status: int) -> dict[str, Point]:
    top = Path(tempfile.mkdtemp(prefix="rmqstore-shape-", dir=directory))
    try:
        store = make_wide_store(top / "store", shape)
        damage(store.root)
        return {name: _point(store, name, options, status) for name, options in COMMANDS.items()}
    finally:
        shutil.rmtree(top, ignore_errors=True)


def _point(store: WideStore, name: str, options: tuple[str, ...], status: int) -> Point:
    changes = "--yes" in options
    if changes:
        shutil.rmtree(store.root / "consumequeue")
    words = (name, str(store.root), *options, "--quiet", *store.settings)
    first = _run(words, status)
    return first if changes or first.seconds >= _AGAIN_BELOW else min(first, _run(words, status), key=lambda point: point.seconds)


def _run(words: Sequence[str], status: int) -> Point:
    """Run a command of `rmqstore`. Raises RuntimeError for a status other than 0 and `status`."""
    launcher = [sys.executable, "-S", "-E", str(measure.LAUNCHER), *measure.rmqstore(), *words]
    done = subprocess.run(launcher, stdout=subprocess.PIPE, check=True, preexec_fn=_few_descriptors)
    took = json.loads(done.stdout)
    if took["status"] not in (0, status):
        raise RuntimeError(f"rmqstore {' '.join(words)} ended with status {took['status']}: {took['output'][-2000:]}")
    return Point(took["processor_seconds"], took["peak_bytes"])


def _few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


def lines(growths: Sequence[Growth]) -> Iterator[report.Line]:
    """Yield the lines of the report."""
    for growth in growths:
        sizes = " ".join(f"{size:,}" for size in (0, *growth.points))
        seconds = " ".join(f"{seconds:6.2f}" for seconds in (growth.start, *(point.seconds for point in growth.points.values())))
        exponent = growth.exponent
        name, peak = f"{growth.dimension}, {sizes}: {growth.command}", report.mebibytes(max(point.peak for point in growth.points.values()))
        if exponent is None:
            yield report.Line(name, seconds, "", peak)
        else:
            yield report.Line(name, seconds, f"{exponent:.2f}", peak, f"<= {GOAL}", exponent <= GOAL)


def as_json(growths: Sequence[Growth]) -> list[dict[str, object]]:
    """Return everything that was measured."""
    return [
        {
            "dimension": growth.dimension,
            "command": growth.command,
            "processor_seconds": {size: round(point.seconds, 3) for size, point in growth.points.items()},
            "peak_bytes": {size: point.peak for size, point in growth.points.items()},
            "processor_seconds_at_0": round(growth.start, 3),
            "exponent": growth.exponent,
        }
        for growth in growths
    ]
