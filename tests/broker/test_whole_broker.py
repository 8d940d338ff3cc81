"""Whole brokers start on repaired stores and serve their clients what the repair promised.

The cases are the same in every run; `python -m tests.broker.whole_broker` runs others. A case is a test, so that no more brokers are up
at a time than there are test processes.
"""

from __future__ import annotations

import pytest

from tests.broker.repaired import describe
from tests.broker.toolchain import WHOLE, JarsMissing, missing, prepared
from tests.broker.whole_broker import MODULE, judge_all, whole_case

# sample store, damage, whether `abort` is there
CASES = (
    ("broker-5.5.1-crash", "body-flip-mid", "yes"),
    ("broker-5.3.3-cqext-crash", "garbage-300-mid", "yes"),
    ("broker-5.5.1-rocksdb-clean", "checkpoint-missing", "no"),
    ("broker-4.9.7-lmq-crash", "index-all-removed", "no"),
    ("5.5.1-plain", "torn-tail-half", "no"),
    ("5.3.3-plain", "file-missing-middle", "yes"),
    ("4.9.8-plain", "cq-all-removed", "yes"),
)

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"whole brokers cannot run here: {missing()}"),
]


@pytest.mark.limited(2)
@pytest.mark.sampled(1)
@pytest.mark.parametrize(("base", "damage", "abort"), CASES)
def test_a_repaired_store_serves_clients_what_was_promised(base: str, damage: str, abort: str) -> None:
    case = whole_case(base, damage, abort)
    try:
        prepared(case.release, WHOLE)
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of a broker {case.release}: {error}")
    (verdict,) = judge_all([case], jobs=1)
    assert not verdict.undone
    assert not verdict.problems, "\n".join(describe(verdict, MODULE))
