"""The real store code starts on repaired stores and serves what the repair promised: some damages of each kind for each release family.

The cases are the same in every run; `python -m tests.broker.repaired` runs others.
"""

from __future__ import annotations

import pytest

from tests.broker.repaired import RepairCase, describe, judge_all
from tests.broker.toolchain import missing

# release: (sample store, damage, whether `abort` is there)
CASES = {
    "4.9.8": (
        ("plain", "body-flip-mid", "yes"),
        ("plain", "file-missing-middle", "no"),
        ("plain-crash", "torn-tail-half", "yes"),
        ("plain", "cq-all-removed", "no"),
        ("lmq", "index-all-removed", "yes"),
        ("plain", "cq-subdir", "no"),
    ),
    "5.1.4": (
        ("plain", "zero-4k-mid", "no"),
        ("plain-crash", "cq-file-middle-missing", "yes"),
        ("longtopic", "garbage-300-mid", "yes"),
        ("plain", "checkpoint-missing+body-flip-zero", "no"),
    ),
    "5.2.0": (
        ("plain", "field-totalsize-mid", "yes"),
        ("plain-crash", "stale-tail-garbage", "no"),
        ("propcrc", "zero-record-mid", "no"),
        ("lmq", "cq-unit-zero", "yes"),
    ),
    "5.3.3": (
        ("plain", "body-flip-head", "no"),
        ("plain", "index-header-garbage", "yes"),
        ("plain-crash", "undispatched-two", "yes"),
        ("batchcq-crash", "garbage-300-early", "yes"),
        ("cqext", "zero-200-mid", "no"),
        ("transactions", "cq-queue-removed", "no"),
        ("plain", "cq-queue-negative", "no"),
    ),
    "5.4.0": (
        ("plain", "garbage-file-mid", "yes"),
        ("plain-crash", "file-foreign-samesize", "no"),
        ("manyfiles", "checkpoint-missing+cq-all-removed", "yes"),
        ("plain", "blank-zero", "no"),
    ),
    "5.5.1": (
        ("plain", "body-flip-early", "yes"),
        ("plain-crash", "cq-preblank-only", "no"),
        ("batch", "zero-file-mid", "no"),
        ("compressed", "cq-all-removed+body-flip-mid", "yes"),
        ("plain", "checkpoint-logicsphy-far", "yes"),
        ("ipv6", "tail-cut-3", "no"),
        ("plain", "cq-topic-is-file", "no"),
    ),
}
JOBS = 4

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"the real store code cannot run here: {missing()}"),
]


@pytest.mark.limited(2)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("release", CASES, indirect=True)
def test_a_repaired_store_serves_what_was_promised(release: str) -> None:
    cases = [RepairCase(f"{release}-{base}", damage, abort, release) for base, damage, abort in CASES[release]]
    verdicts = list(judge_all(cases, JOBS))
    problems = [line for verdict in verdicts if verdict.problems for line in describe(verdict)]
    assert not problems, "\n".join(problems)
    assert [verdict.case for verdict in verdicts if verdict.undone] == []
