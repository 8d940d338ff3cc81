"""Changes sample stores, kept plans and transactions at random, and runs every command of the command line on them.

python -m tests.fuzz --cases 500 --seed 1                  500 random cases
python -m tests.fuzz --seed 1 --first 17 --cases 1         case 17 of seed 1 alone
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict

from tests.fuzz.cases import Fuzzed
from tests.fuzz.commands import DOCUMENTED
from tests.fuzz.fuzzing import fuzz_all


def _arguments() -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__, formatter_class=raw)
    parser.add_argument("--cases", type=int, default=500, metavar="N", help="default %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default %(default)s")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first case (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes side by side (default %(default)s)")
    return parser.parse_args()


def main() -> int:
    options = _arguments()
    began = time.monotonic()
    classes: dict[str, list[Fuzzed]] = defaultdict(list)
    statuses: Counter[tuple[str, int]] = Counter()
    count = 0
    for case in fuzz_all(options.seed, range(options.first, options.first + options.cases), options.jobs):
        count += 1
        statuses += case.statuses
        if case.broken:
            print(case, flush=True)
        for broken in case.broken:
            print(f"    {broken.command[:400]}\n        {broken.text[:3000]}", flush=True)
            classes[broken.kind].append(case)
    for kind, cases in sorted(classes.items(), key=lambda item: -len(item[1])):
        print(f"{len(cases):5}  {kind}\n         {min(cases, key=lambda case: len(case.done))}")
    for name in sorted({name for name, _ in statuses}):
        print(f"{name:22}" + "".join(f"{statuses[name, status]:6} x {status}" for status in DOCUMENTED))
    seconds = time.monotonic() - began
    print(f"seed {options.seed}: {count} cases, {statuses.total()} commands, {sum(map(len, classes.values()))} broken; {seconds:.0f} s")
    return 1 if classes else 0


if __name__ == "__main__":
    sys.exit(main())
