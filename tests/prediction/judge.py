"""Compares the prediction with what brokers did, and prints the disagreements by field and damage.

python -m tests.prediction.judge [FILE...] [--damage TEXT] [--base TEXT] [--abort yes|no] [--field TEXT] [--show N]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rmqstore.prediction.simulation import simulate
from rmqstore.store.root import Store
from tests.prediction.comparing import Difference, differences
from tests.prediction.recorded_cases import Case, WorkingStore, cases_of, truth_files


@dataclass
class Judge:
    """Runs cases on working copies below `scratch`."""

    scratch: Path
    working: dict[str, WorkingStore] = field(default_factory=dict)

    def judge(self, case: Case) -> list[Difference]:
        """What was predicted otherwise than it came."""
        name = case["base"]
        if name not in self.working:
            self.working[name] = WorkingStore(name, self.scratch)
        store = self.working[name]
        store.damage(case)
        try:
            outcome = simulate(Store.open(store.root, settings=store.settings(case)), case["version"])
            return list(differences(case, outcome, store.paths()))
        finally:
            store.mend(case)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="names without .jsonl.gz (default: all)")
    for name in ("damage", "base", "abort", "field"):
        parser.add_argument(f"--{name}", default="", metavar="TEXT")
    parser.add_argument("--show", type=int, default=5, help="disagreeing cases to print (default %(default)s)")
    return parser.parse_args()


def main() -> None:
    options = _arguments()
    fields: Counter[str] = Counter()
    damages: Counter[str] = Counter()
    shown = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        judge = Judge(Path(scratch))
        for name in options.files or truth_files():
            verdicts: Counter[bool] = Counter()
            for case in cases_of(name):
                if options.damage not in case["damage"] or options.base not in case["base"] or options.abort not in case["abort"]:
                    continue
                found = judge.judge(case)
                verdicts[not found] += 1
                fields.update({difference[0] for difference in found})
                damages.update([f"{case['damage']} abort={case['abort']}"] if found else [])
                wanted = [difference for difference in found if options.field in difference[0]]
                if wanted and shown < options.show:
                    shown += 1
                    print(f"--- {case['base']} -> {case['version']}  {case['damage']}  abort={case['abort']}")
                    for what, true, predicted in wanted:
                        print(f"  {what}\n     broker    {true}\n     predicted {predicted}")
            print(f"{name:28} agree {verdicts[True]:5}  disagree {verdicts[False]:5}")
    for title, counts in (("field", fields), ("damage", damages)):
        for what, count in counts.most_common(25):
            print(f"  {title}  {count:5}  {what}")
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
