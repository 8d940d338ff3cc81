"""Every damage of the table, and only the commands that the tool prints: no circle, and the broker can be started at the end.

Each damage is followed on one of three stores in turn: on all of them it takes as long as a fifth of all other cases together.
"""

from __future__ import annotations

import pytest

from tests.doctor.diagnosing import FreshStore
from tests.stories.following import START, follow
from tests.support.cli import rmqstore
from tests.support.damages import DAMAGES, apply
from tests.support.stores import case
from tests.support.storeview import StoreView

BASES = ["4.9.8-plain", "5.3.3-plain-crash", "5.5.1-plain"]


LOG_ELSEWHERE = "df"
"""The command where the whole commit log is missing: which volume is in its place."""


@pytest.mark.limited(35)
@pytest.mark.sampled(20)
@pytest.mark.parametrize(("damage", "base"), [(damage, BASES[number % len(BASES)]) for number, damage in enumerate(DAMAGES)])
def test_the_end_is_the_start(damage: str, base: str, fresh_store: FreshStore) -> None:
    root = fresh_store(base)
    apply(DAMAGES[damage](StoreView(root, case(base).settings(root))), root)
    words = ["doctor", str(root), *case(base).set_options(root)]
    if rmqstore(*words).out.rstrip("\n").splitlines()[-1].startswith(LOG_ELSEWHERE):
        assert not any(path.stat().st_size for path in root.glob("commitlog/*"))
        return

    _, steps = follow(words)

    after = rmqstore(*words, "--json").objects[-1]
    if "file-missing-first" not in damage:  # what is gone stays named; the repair found nothing else, and said to start
        assert after["next"].startswith(START), steps
        assert not steps or after["class"] == "STARTS, NOTHING LOST"
