"""Damages sample stores at random, lets brokers and the prediction recover each, and prints what they disagree on.

python -m tests.broker --cases 500 --seed 1                      500 random cases
python -m tests.broker --seed 1 --first 17 --cases 1             case 17 of seed 1 alone
python -m tests.broker --cases 500 --seed 1 --record FILE        keeps the disagreeing cases with what the brokers did, as JSON lines
python -m tests.broker --again FILE                              asks again about the cases in FILE
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.broker.live import JOBS, RELEASES, Verdict, judge_all, random_case
from tests.broker.toolchain import JarsMissing, missing
from tests.prediction.recorded_cases import Case

_PLAN = ("base", "version", "damage", "abort", "settings", "ops")
"""What a case is, without what the broker did."""

_WIDTH = 2000


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.broker", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=500, metavar="N", help="default %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default %(default)s")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first case (default %(default)s)")
    parser.add_argument("--release", action="append", help="only this release; may be repeated")
    parser.add_argument("--jobs", type=int, default=JOBS, metavar="N", help="stores that recover side by side (default %(default)s)")
    parser.add_argument("--again", type=Path, metavar="FILE", help="cases from a file instead of random ones")
    parser.add_argument("--record", type=Path, metavar="FILE", help="where to keep disagreeing cases")
    return parser.parse_args()


def _cases(options: argparse.Namespace) -> list[Case]:
    if options.again:
        lines = [json.loads(line) for line in options.again.read_text().splitlines()]
        return [{key: line[key] for key in _PLAN if key in line} for line in lines]
    numbers = range(options.first, options.first + options.cases)
    return [random_case(options.seed, number, options.release or RELEASES) for number in numbers]


def describe(verdict: Verdict) -> Iterator[str]:
    """Everything needed to see the disagreement and to come back to it."""
    yield json.dumps({key: verdict.case[key] for key in _PLAN if key in verdict.case})
    for field, true, predicted in verdict.differences:
        yield f"  {field}"
        yield f"     broker    {str(true)[:_WIDTH]}"
        yield f"     predicted {str(predicted)[:_WIDTH]}"


def main() -> int:
    options = _arguments()
    if reason := missing():
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    began = time.monotonic()
    counts: Counter[tuple[str, str]] = Counter()
    kept: list[str] = []
    try:
        for verdict in judge_all(_cases(options), options.jobs):
            kind = "disagree" if verdict.differences else "not judged" if verdict.undone else "agree"
            counts[verdict.case["version"], kind] += 1
            if verdict.differences:
                print(*describe(verdict), sep="\n", flush=True)
                kept.append(json.dumps(verdict.case))
            elif verdict.undone:
                print(f"{verdict.case['damage']} on {verdict.case['base']} by {verdict.case['version']}: not judged, {verdict.undone}")
    except JarsMissing as error:
        print(f"cannot run: {error}", file=sys.stderr)
        return 2
    if options.record:
        options.record.write_text("".join(f"{line}\n" for line in kept))
    for release in sorted({release for release, _ in counts}):
        print(f"{release:8}" + "".join(f"  {kind} {counts[release, kind]:4}" for kind in ("agree", "disagree", "not judged")))
    print(f"seed {options.seed}, {sum(counts.values())} cases, {time.monotonic() - began:.0f} s")
    return 1 if kept else 0


if __name__ == "__main__":
    sys.exit(main())
