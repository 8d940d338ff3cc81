"""Damages sample stores at random, repairs them by the command line, and judges bytes, losses, `verify`, second plan, `undo`, and brokers.

python -m tests.campaign --cases 500 --seed 1                    500 random cases
python -m tests.campaign --seed 1 --first 17 --cases 1           case 17 of seed 1 alone
python -m tests.campaign --seed 1 --first 17 --cases 1 --reduce  and with as few of its damages as show the same
python -m tests.campaign --cases 500 --seed 1 --no-broker        without Java
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

from tests.broker.toolchain import missing
from tests.campaign.campaign import Verdict, judge_all, reduced
from tests.campaign.cases import MODULE, Case, random_case
from tests.campaign.kinds import KINDS


def _arguments() -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__, formatter_class=raw)
    parser.add_argument("--cases", type=int, default=500, metavar="N", help="default %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default %(default)s")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first case (default %(default)s)")
    parser.add_argument("--keep", metavar="N,N", help="of the damages of each case only those with these numbers")
    parser.add_argument("--kind", action="append", choices=sorted(KINDS), help="only this kind of damage; may be repeated")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes that repair side by side (default %(default)s)")
    parser.add_argument("--no-broker", action="store_true", help="without the real store code")
    parser.add_argument("--reduce", action="store_true", help="look for the fewest damages that show the same")
    parser.add_argument("--quiet", action="store_true", help="print only cases with problems")
    parser.add_argument("--record", type=Path, metavar="FILE", help="where to keep cases with problems, one JSON object per line")
    return parser.parse_args()


def _cases(options: argparse.Namespace) -> list[Case]:
    cases = [random_case(options.seed, number, options.kind or ()) for number in range(options.first, options.first + options.cases)]
    return cases if options.keep is None else [case.keeping(map(int, options.keep.split(","))) for case in cases]


def _print(verdict: Verdict, quiet: bool) -> None:
    if verdict.problems or not quiet:
        print(f"{verdict.outcome:9} {verdict.case}", flush=True)
    for problem in verdict.problems:
        print(f"    {problem}", flush=True)
    if verdict.note and not quiet:
        print(f"    {verdict.note}", flush=True)


def _tables(verdicts: list[Verdict]) -> None:
    by_kind: dict[str, Counter[str]] = defaultdict(Counter)
    classes: dict[str, list[Verdict]] = defaultdict(list)
    reasons: Counter[str] = Counter()
    for verdict in verdicts:
        for kind in {damage.kind for damage in verdict.case.made}:
            by_kind[kind][verdict.outcome] += 1
        for problem in {problem.kind for problem in verdict.problems}:
            classes[problem].append(verdict)
        if verdict.refused is not None:
            reasons[verdict.refused] += 1
    outcomes = sorted({verdict.outcome for verdict in verdicts})
    print(f"\n{'kind of damage':32}" + "".join(f"{outcome:>12}" for outcome in outcomes))
    for kind in sorted(by_kind):
        print(f"{kind:32}" + "".join(f"{by_kind[kind][outcome]:12}" for outcome in outcomes))
    for reason, count in reasons.most_common():
        print(f"refused {count:4}  {reason}")
    for problem, found in sorted(classes.items(), key=lambda item: -len(item[1])):
        simplest = min(found, key=lambda verdict: len(verdict.case.made))
        print(f"{len(found):5}  {problem}\n         {simplest.case}")


def main() -> int:
    options = _arguments()
    if not options.no_broker and (reason := missing()):
        print(f"without the real store code: {reason}", file=sys.stderr)
        options.no_broker = True
    began = time.monotonic()
    verdicts = []
    for verdict in judge_all(_cases(options), options.jobs, brokers=not options.no_broker):
        if options.reduce and verdict.problems:
            verdict = reduced(verdict, brokers=not options.no_broker)
        verdicts.append(verdict)
        _print(verdict, options.quiet)
    _tables(verdicts)
    counts = Counter(verdict.outcome for verdict in verdicts)
    if options.record:
        broken = [verdict for verdict in verdicts if verdict.problems]
        options.record.write_text("".join(f"{json.dumps(verdict.as_json())}\n" for verdict in broken))
    seconds = time.monotonic() - began
    print(f"seed {options.seed}: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) + f"; {seconds:.0f} s")
    return 1 if counts["BROKEN"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is buffered would fail once more at exit
        sys.exit(1)
