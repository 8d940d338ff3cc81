"""Many fuzz cases, a process of its own for the commands of each row of cases."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.fuzz import commands
from tests.fuzz.cases import Fuzzed, fuzz
from tests.support.worker import Worker, in_memory

_PER_ROW = 10


def fuzz_all(seed: int, numbers: Iterable[int], jobs: int = 2) -> Iterator[Fuzzed]:
    """Every case, in order."""
    wanted = list(numbers)
    rows = [wanted[start : start + _PER_ROW] for start in range(0, len(wanted), _PER_ROW)]
    with ThreadPoolExecutor(jobs) as pool:
        for results in pool.map(partial(_row, seed), rows):
            yield from results


def _row(seed: int, numbers: Sequence[int]) -> list[Fuzzed]:
    with tempfile.TemporaryDirectory(prefix="rmqstore-fuzz-", dir=in_memory()) as scratch, Worker(commands.run) as runner:
        results = []
        for number in numbers:
            place = Path(scratch) / str(number)
            place.mkdir()
            results.append(fuzz(seed, number, place, runner))
        return results
