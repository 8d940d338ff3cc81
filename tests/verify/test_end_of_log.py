"""Parts that need only the end of the log: less is read, and the findings are those of a verification that reads everything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.store.root import Store
from rmqstore.verify.context import Options
from rmqstore.verify.engine import Verification
from tests.support import stores
from tests.support.builder import StoreBuilder
from tests.verify.one_check import patch

START = 1_700_000_000_000
MANY_FILES = [
    case.name
    for case in stores.cases()
    if case.max_phy_offset - case.min_phy_offset > 2 * int(case.data["settings"]["mappedFileSizeCommitLog"])
]
Damage = Callable[[Path], None]


def _later_checkpoint(root: Path) -> None:
    patch(root / "checkpoint", 0, (1 << 50).to_bytes(8, "big"))


def _older_checkpoint(root: Path) -> None:
    patch(root / "checkpoint", 0, bytes(8))


def _last_files_zeroed(root: Path) -> None:
    for path in sorted((root / "commitlog").iterdir())[-2:]:
        path.write_bytes(path.read_bytes()[:4] + b"\xff" * (path.stat().st_size - 4))


def verified(root: Path, part: str | None) -> Verification:
    options = Options() if part is None else Options(parts=frozenset({part}))
    return Verification(Store.open(root), options)


@pytest.mark.parametrize("name", MANY_FILES)
@pytest.mark.parametrize("damage", [None, _later_checkpoint, _older_checkpoint, _last_files_zeroed])
def test_a_part_alone_has_the_findings_of_the_whole(name: str, damage: Damage | None, tmp_path: Path) -> None:
    root = stores.fresh_store(name, tmp_path)
    if damage is not None and (root / "commitlog").is_dir():
        damage(root)
    everything = list(verified(root, None).run())
    for part, prefix in (("checkpoint", "RMQ-CP-"), ("timer", "RMQ-TM-")):
        alone = verified(root, part)
        findings = [one for one in alone.run() if one.code.startswith(prefix)]
        assert findings == [one for one in everything if one.code.startswith(prefix)]


def test_a_healthy_checkpoint_needs_two_files_of_the_log() -> None:
    alone = verified(stores.sample_store("5.5.1-manyfiles"), "checkpoint")
    assert list(alone.run()) == []
    assert alone.totals.bytes == sum(file.length for file in alone.store.message_log.files[-2:])


def test_a_clock_that_was_set_back_before_the_last_files(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, log_file_size=4096)
    for number in range(60):
        builder.message(store_timestamp=START + 1_000_000 - number * 10_000, body=bytes(200))
    builder.build()
    assert len(Store.open(tmp_path).message_log.files) > 3
    whole = verified(tmp_path, None)
    list(whole.run())
    patch(tmp_path / "checkpoint", 0, whole.context.log.last_timestamp.to_bytes(8, "big") * 3)

    alone = verified(tmp_path, "checkpoint")

    assert list(alone.run()) == []
    assert alone.totals.bytes == Store.open(tmp_path).message_log.length
