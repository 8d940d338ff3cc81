"""Kills, fills and breaks an apply or undo of the command line at random, goes on, and compares bytes, modes and times.

python -m tests.kills --cases 100 --seed 1                  100 random cases
python -m tests.kills --seed 1 --first 17 --cases 1         case 17 of seed 1 alone
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.kills.cases import run_all


def _arguments() -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__, formatter_class=raw)
    parser.add_argument("--cases", type=int, default=100, metavar="N", help="default %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default %(default)s")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first case (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes side by side (default %(default)s)")
    return parser.parse_args()


def main() -> int:
    options = _arguments()
    began = time.monotonic()
    count = broken = 0
    for case in run_all(options.seed, range(options.first, options.first + options.cases), options.jobs):
        count, broken = count + 1, broken + bool(case.problems)
        print("BROKEN" if case.problems else "ok    ", case, flush=True)
        for problem in case.problems:
            print(f"    {problem}", flush=True)
    print(f"seed {options.seed}: {count} cases, {broken} broken; {time.monotonic() - began:.0f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
