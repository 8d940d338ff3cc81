"""Whatever the bytes are, the simulation ends with a result or a clear error, in every release, and changes nothing."""

from __future__ import annotations

import faulthandler
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqstore.errors import RmqstoreError
from rmqstore.formats.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET
from rmqstore.prediction.consequences import consequences_of
from rmqstore.prediction.report import as_json
from rmqstore.prediction.simulation import WhatIf, simulate
from rmqstore.store.root import Store
from rmqstore.versions import PROFILES
from tests.support import stores
from tests.support.builder import StoreBuilder

LIMIT_SECONDS = 600
RELEASES = [profile.until for profile in PROFILES]
SWITCHES = (
    "enableLmq",
    "enableMultiDispatch",
    "enableConsumeQueueExt",
    "duplicationEnable",
    "messageIndexSafe",
    "recheckReputOffsetFromCq",
)


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    faulthandler.dump_traceback_later(LIMIT_SECONDS, exit=True, file=2)
    yield
    faulthandler.cancel_dump_traceback_later()


def small_store(root: Path) -> StoreBuilder:
    builder = StoreBuilder(root, log_file_size=2048, queue_file_size=100, slots=5, items=12)
    for number in range(40):
        builder.message(topic=f"T{number % 3}", queue_id=number % 2, body=b"b" * (number % 50), tags="a", keys=f"k{number}")
    return builder


def injure(root: Path, rng: random.Random) -> None:
    """One to four small injuries anywhere below the root."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    for _ in range(rng.randint(1, 4)):
        path = rng.choice(files)
        if not path.is_file():
            continue
        length = path.stat().st_size
        match rng.choice(["noise", "noise", "integer", "zero", "cut", "remove", "twin", "name"]):
            case "cut":
                with path.open("r+b") as file:
                    file.truncate(rng.randrange(length + 1))
            case "remove":
                path.unlink()
            case "twin":
                path.with_name(rng.choice(["0" * 20, "00000000000000002048", "zzz", "-1", "9" * 20])).write_bytes(path.read_bytes())
            case "name":
                path.rename(path.with_name(f"{rng.getrandbits(62):020d}"))
            case kind:
                data = {"noise": rng.randbytes(rng.choice([1, 4, 60, 600])), "zero": bytes(rng.choice([4, 200]))}.get(
                    kind, rng.choice([0, 1, -1, 2**31 - 1, -(2**31), rng.getrandbits(31)]).to_bytes(4, "big", signed=True)
                )
                with path.open("r+b") as file:
                    file.seek(rng.randrange(length + 1))
                    file.write(data[: max(0, length - file.tell())])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(25))
def test_injured_stores(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    builder = small_store(tmp_path / "store")
    root = builder.crash().build() if rng.random() < 0.5 else builder.stop().build()
    injure(root, rng)
    before = stores.snapshot(root), stores.content(root)
    settings = builder.settings | {switch: "true" for switch in SWITCHES if rng.random() < 0.2}
    for release in RELEASES:
        for what_if in (WhatIf(), WhatIf(abort=True, checkpoint_removed=True), WhatIf(abort=False)):
            store = Store.open(root, settings=settings)
            try:
                outcome = simulate(store, release, what_if)
                report = as_json(outcome, root, consequences_of(store, outcome))
            except RmqstoreError as error:
                pytest.fail(f"seed {seed}, {release}: {error.message}")
            assert report["starts"] is not None or report["unknown"]
            assert report["starts"] is not False or report["blockers"]
    assert (stores.snapshot(root), stores.content(root)) == before


def test_a_far_queue_offset_takes_no_memory(tmp_path: Path) -> None:
    builder = small_store(tmp_path / "store")
    # The last place of a queue file of two GiB: the broker fills everything before it.
    builder.message(topic="Far", queue_offset=2**31 // 20 - 2)
    root = builder.crash().build()
    settings = builder.settings | {"mappedFileSizeConsumeQueue": str(2**31 - 28)}
    outcome = simulate(Store.open(root, settings=settings), "5.3.3", WhatIf(abort=True, checkpoint_removed=True))
    assert outcome.blockers and outcome.blockers[0].code == "file-length"
    for path in (root / "consumequeue").rglob("*"):
        if path.is_file():
            path.unlink()
    outcome = simulate(Store.open(root, settings=settings), "5.3.3", WhatIf(abort=True, checkpoint_removed=True))
    assert outcome.after_load.queues is not None
    assert outcome.after_load.queues["Far/0"].max_offset == 2**31 // 20 - 1


def test_a_light_queue_offset_that_is_no_number_stops_the_load(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store")
    builder.message(properties={INNER_MULTI_DISPATCH: "%LMQ%a,b", INNER_MULTI_QUEUE_OFFSET: "0,7"})
    root = builder.crash().build()
    log = min((root / "commitlog").iterdir())
    log.write_bytes(log.read_bytes().replace(b"\x010,7", b"\x010,x"))
    settings = builder.settings | {"enableLmq": "true", "enableMultiDispatch": "true"}
    outcome = simulate(Store.open(root, settings=settings), "5.3.3", WhatIf(abort=True))
    assert outcome.starts is False
    assert [blocker.code for blocker in outcome.blockers] == ["dispatch"]
