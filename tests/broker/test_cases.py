"""Random cases fit their store and can be repeated from what is printed about them. No Java is needed for that."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from tests.broker.live import random_case
from tests.broker.random_damages import random_damage
from tests.prediction.recorded_cases import operation, recorded
from tests.support import operations, stores
from tests.support.damages import DAMAGES
from tests.support.operations import Flip, Move, Noise, Write, Zero
from tests.support.storeview import StoreView

CASES = 10
DAMAGES_OF_A_STORE = 100


def view_of(name: str, root: Path) -> StoreView:
    return StoreView(root, stores.case(name).settings(root))


def test_a_case_depends_on_seed_and_number_alone() -> None:
    forward = [random_case(7, number) for number in range(CASES)]
    assert [random_case(7, number) for number in reversed(range(CASES))] == forward[::-1]
    assert [random_case(8, number) for number in range(CASES)] != forward
    assert json.loads(json.dumps(forward)) == forward


def test_every_operation_can_be_recorded() -> None:
    view = view_of("5.3.3-plain-crash", stores.sample_store("5.3.3-plain-crash"))
    planned = [change for plan in DAMAGES.values() for change in plan(view)]
    assert [operation(recorded(change)) for change in planned] == planned


@pytest.mark.parametrize("name", ["5.3.3-plain-crash", "5.5.1-multipath", "5.5.1-batchcq", "4.9.8-empty", "5.3.3-rocksdb"])
def test_bytes_are_changed_inside_of_files(name: str, tmp_path: Path) -> None:
    root = stores.fresh_store(name, tmp_path)
    view = view_of(name, root)
    lengths = {path: path.stat().st_size for path in root.rglob("*") if path.is_file()}
    for seed in range(DAMAGES_OF_A_STORE):
        damage, planned = random_damage(Random(seed), view)
        inside = [change for change in planned if isinstance(change, Write | Flip | Zero | Noise | Move)]
        if len(inside) < len(planned):
            continue  # files come and go
        assert all((root / change.path).is_file() for change in inside), damage
        operations.apply(inside, root)
        assert {path: path.stat().st_size for path in lengths} == lengths, damage
