"""Where recovery begins with index or transactions in RocksDB: what is predicted, against the store code of 5.4.0 and 5.5.1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict

from rmqstore.formats.rocksdb import LAST_OFFSET_KEY
from rmqstore.prediction.simulation import simulate
from rmqstore.store.root import Store
from tests.broker.answers import recorded_form
from tests.broker.harness import Harness
from tests.broker.toolchain import missing
from tests.prediction.comparing import differences
from tests.support import stores

pytestmark = [pytest.mark.broker, pytest.mark.skipif(missing() is not None, reason=f"the store code cannot run here: {missing()}")]
STORES = {"5.4.0": "5.4.0-manyfiles", "5.5.1": "5.5.1-manyfiles"}
INDEX, HALVES, ONLY = {"indexRocksDBEnable": "true"}, {"transRocksDBEnable": "true"}, {"transWriteOriginTransHalfEnable": "false"}
CASES: dict[str, tuple[dict[str, str], int | None, bool]] = {
    "index, no entries": (INDEX, None, True),
    "index, no entries, after a stop": (INDEX, None, False),
    "index, 250000": (INDEX, 250_000, True),
    "index, 250000, after a stop": (INDEX, 250_000, False),
    "index, all": (INDEX, 10_000_000, True),
    "halves, 250000": (HALVES, 250_000, True),
    "halves alone, 250000": ({**HALVES, **ONLY}, 250_000, True),
    "both, no entries": ({**INDEX, **HALVES}, None, True),
}
"""Settings, physical offset of the last message that index and transactions have, and whether the broker was killed."""


@pytest.fixture(scope="module", params=STORES)
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    with Harness(request.param, 1) as harness:
        yield harness


def make_database(root: Path, last: int | None) -> None:
    raw = Options(raw_mode=True)
    raw.create_if_missing(True)
    raw.create_missing_column_families(True)
    names = ("default", "timer", "trans")
    database = Rdict(str(root / "rocksdbstore"), raw, column_families={name: Options(raw_mode=True) for name in names})
    for name in names[::2] if last is not None else ():
        family = database.get_column_family(name)
        family.put(LAST_OFFSET_KEY, last.to_bytes(8, "big"))
        family.flush()
        del family
    database.close()
    (root / "rocksdbstore" / "rocksdict-config.json").unlink(missing_ok=True)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CASES)
def test_recovery_begins_where_all_parts_have_the_log(name: str, harness: Harness, tmp_path: Path) -> None:
    switches, last, killed = CASES[name]
    if "transRocksDBEnable" in switches and harness.release != "5.4.0":
        pytest.skip("the store code of later releases gets its transactions from the broker")
    base = stores.case(STORES[harness.release])
    root = stores.fresh_store(base.name, tmp_path)
    settings: dict[str, Any] = {**base.settings(root), **switches, "commitLogRecoverMaxNum": "6"}
    make_database(root, last)
    if killed:
        (root / "abort").touch()
    paths = {str(path.relative_to(root)) for path in root.rglob("*")}
    outcome = simulate(Store.open(root, settings=settings), harness.release)

    answer = harness.recover(root, settings, base.data.get("topics", {}), alone=True)

    case: Any = {"base": base.name, "version": harness.release, **recorded_form(answer)}
    assert outcome.unknown is None
    assert list(differences(case, outcome, paths)) == []
