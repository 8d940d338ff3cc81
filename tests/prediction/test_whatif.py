"""Comparison of ways to start damaged stores: which one does the least harm, which ones are equal, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from rmqstore.prediction.whatif import Compared, compare, least_harmful, parse_variants, why_least
from rmqstore.store.root import Store
from tests.doctor.diagnosing import FreshStore, damaged
from tests.support.stores import case

ALL = ["abort=present,absent checkpoint=kept,removed version=4.9.8,5.1.4,5.3.3,5.5.1"]
DAMAGED = [
    *(("5.3.3-plain", name) for name in ("body-flip-last", "field-magic-last", "cq-tail-zero-1", "index-short", "checkpoint-zero")),
    *(("4.9.8-plain", name) for name in ("storetime-last-ahead", "totalsize-half-gib", "checkpoint-short-20", "file-missing-middle")),
    *(("5.5.1-plain-crash", name) for name in ("zero-200-early", "torn-tail-4", "index-short", "cq-all-removed")),
    *(("5.1.4-plain-crash", name) for name in ("field-proplen-last", "record-to-blank-last", "cq-subdir", "checkpoint-missing")),
]


@dataclass(frozen=True, slots=True)
class Comparison:
    """All ways, those of the least harm, and the reason."""

    ways: Sequence[Compared]
    least: Sequence[Compared]
    because: str


def ways_of(fresh_store: FreshStore, base: str, damage: str, texts: Sequence[str] = ALL) -> Comparison:
    root, release = damaged(fresh_store, base, damage), case(base).release
    store = Store.open(root, settings=case(base).settings(root))
    ways = list(compare(store, parse_variants(texts, release)))
    least = least_harmful(ways, release, abort=store.abort_present)
    return Comparison(ways, least, why_least(ways, least[0], release))


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("base", "damage"), DAMAGED)
def test_another_release_only_where_it_is_better(base: str, damage: str, fresh_store: FreshStore) -> None:
    found, release = ways_of(fresh_store, base, damage), case(base).release
    best = found.least[0]
    own = min(one.harm for one in found.ways if one.variant.release == release)
    assert best.variant.release == release or best.harm < own
    assert {id(one) for one in found.least} == {id(one) for one in found.ways if one.harm == best.harm}
    assert found.because == "all variants do the same harm" or len(found.least) < len(found.ways)


@pytest.mark.parametrize("damage", ["cq-preblank-only", "cq-tail-far-beyond-log", "cq-file-garbage"])
def test_a_gap_in_the_log_is_a_harm(damage: str, fresh_store: FreshStore) -> None:
    """Without abort, 5.3.3 continues in the pre-allocated file, and the next recovery after a crash stops at the zeros before it."""
    found = ways_of(fresh_store, "5.3.3-plain-crash", damage)
    assert {one.outcome.after_load.max_phy_offset for one in found.ways} == {274891, 327680}
    assert {one.outcome.after_load.max_phy_offset for one in found.least} == {274891}
    assert found.least[0].variant.label == {"version": "5.3.3", "abort": "present", "checkpoint": "removed"}
    assert found.because == "offset of the next message: 274891, in the worst of these ways 327680"


def test_where_no_way_starts_none_is_better(fresh_store: FreshStore) -> None:
    found = ways_of(fresh_store, "5.3.3-plain-crash", "cq-file-bak")
    assert {one.outcome.starts for one in found.ways} == {False}
    assert found.because == "none of these ways starts"
    assert found.least[0].variant.label == {"version": "5.3.3", "abort": "present", "checkpoint": "kept"}


def test_the_reason_for_another_release(fresh_store: FreshStore) -> None:
    found = ways_of(fresh_store, "4.9.8-plain", "field-totalsize-mid")
    assert found.least[0].variant.release == "5.3.3"
    assert found.because == "index entries lost: 0, in the best way with 4.9.8 34"
    hanging = ways_of(fresh_store, "4.9.8-plain-crash", "file-missing-lastdata")
    assert hanging.because == "no way is known to start with 4.9.8"


def test_entries_of_an_index_with_a_damaged_number(fresh_store: FreshStore) -> None:
    found = ways_of(fresh_store, "5.3.3-plain", "index-header-garbage")
    capacity = int(case("5.3.3-plain").settings("")["maxIndexNum"])
    files = max(len(one.consequences.index) for one in found.ways)
    assert 0 < max(one.consequences.index_items_lost for one in found.ways) <= files * capacity
