"""Offsets that were lost from a file that is whole: what the rest of the store shows of the groups that had some."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.doctor.areas import Area
from rmqstore.doctor.nextsteps import GONE
from rmqstore.store import fastjson
from tests.doctor.diagnosing import FreshStore, diagnosis_of

BASE = "broker-5.3.3-cqext-crash"
RETURNED = "g_fail"
OFFSETS = "consumerOffset.json"


def without_groups(root: Path, keep: Callable[[str], bool]) -> None:
    """Leave the offsets of some groups, in a file that is whole, and no `.bak` that shows the others."""
    path = root / "config" / OFFSETS
    table = fastjson.parse((root / "config" / f"{OFFSETS}.bak").read_bytes()).value["offsetTable"] if keep(RETURNED) else {}
    path.write_text(json.dumps({"offsetTable": {key: one for key, one in table.items() if keep(key.partition("@")[2])}}))
    (root / "config" / f"{OFFSETS}.bak").unlink()


def test_a_group_whose_messages_were_returned(fresh_store: FreshStore) -> None:
    root = fresh_store(BASE)
    without_groups(root, lambda group: False)
    found = diagnosis_of(root, BASE)
    assert found.verdict.headline.startswith(f"STARTS, BUT consumers start again without offsets in {OFFSETS}"), found.verdict.headline
    assert RETURNED in next(one.reason for one in found.verdict.areas if one.area is Area.PROGRESS)
    assert len(found.verdict.headline) <= 120
    assert found.next == GONE


@pytest.mark.parametrize("how", ["other groups are missing", "the group was deleted"])
def test_groups_of_which_nothing_shows_offsets(how: str, fresh_store: FreshStore) -> None:
    root = fresh_store(BASE)
    if how == "other groups are missing":
        without_groups(root, lambda group: group == RETURNED)
    else:
        without_groups(root, lambda group: False)
        groups = root / "config" / "subscriptionGroup.json"
        content = fastjson.parse(groups.read_bytes()).value
        del content["subscriptionGroupTable"][RETURNED]
        groups.write_text(json.dumps(content))
        groups.with_suffix(".json.bak").unlink()
    assert "although messages were returned" not in diagnosis_of(root, BASE).verdict.headline
