"""The recovery of a DLedger member's own log is predicted as the real code does it, for every damage of the repair and for random ones."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from rmqstore.prediction.blockers import BrokerKilled
from rmqstore.prediction.log.ledger import recovered
from rmqstore.store.root import Store
from tests.broker.toolchain import JarsMissing, ledger_command, missing
from tests.repair.test_dledger import DATA, DIRECTORY, INDEX, NAME, NEXT, OF_OTHERS, PROVEN, entries
from tests.support import stores
from tests.support.waiting import PATIENCE

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"the real store code cannot run here: {missing()}"),
]
RELEASES = ("4.9.7", "5.3.3", "5.5.1")
_EXITED = 255
FILE_SIZE = 1 << 20
Result = tuple[int, int] | None


def in_code(release: str, root: Path, scratch: Path) -> Result:
    """Number of the last entry and the offset after it; None if the process ends without them."""
    copy = scratch / "member"
    subprocess.run(["cp", "-a", "--sparse=always", f"{root}/.", copy], check=True, timeout=PATIENCE)
    (scratch / "transient").mkdir()
    try:
        command = ledger_command(release, scratch, scratch / "transient", str(copy), str(FILE_SIZE))
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of {release}: {error}")
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    shutil.rmtree(copy)
    if done.returncode:
        assert done.returncode == _EXITED or "DLedgerException" in done.stderr or "NumberFormatException" in done.stderr, done.stderr
        return None
    numbers = done.stdout.split()
    return int(numbers[0]), int(numbers[1])


def predicted(root: Path) -> Result:
    log = Store.open(root, settings=stores.case(NAME).settings(root)).dledger
    assert log is not None
    try:
        start = recovered(log)
    except BrokerKilled:
        return None
    return start.last_index, start.end_offset


def _short(root: Path) -> None:
    (root / DATA).write_bytes((root / DATA).read_bytes()[:-10])


def _foreign(root: Path) -> None:
    shutil.copyfile(root / DATA, root / DIRECTORY / "data" / "copy")


REFUSED = {
    "a short file": _short,
    "a foreign file": _foreign,
    "a missing file": lambda root: (root / DATA).unlink(),
    "a gap": lambda root: (root / NEXT).rename(root / DIRECTORY / "data" / f"{2 << 20:020d}"),
    "no data": lambda root: shutil.rmtree(root / DIRECTORY / "data"),
    "a short index": lambda root: (root / INDEX).write_bytes(bytes(100)),
}
DAMAGES = {**PROVEN, **OF_OTHERS, **REFUSED}


@pytest.mark.limited(9)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_member(damage: str, release: str, tmp_path: Path) -> None:
    root = stores.fresh_store(NAME, tmp_path)
    DAMAGES[damage](root)
    assert predicted(root) == in_code(release, root, tmp_path)


@pytest.mark.sampled(1)
@pytest.mark.limited(12)
@pytest.mark.parametrize("seed", range(60))
def test_random_damages(seed: int, tmp_path: Path) -> None:
    """Bytes of headers, records, the index and marks are changed, zeroed or moved; half of the cases have several damages."""
    chance = random.Random(seed)
    root = stores.fresh_store(NAME, tmp_path)
    for _ in range(chance.choice([1, 1, 2, 4])):
        name = chance.choice([DATA, NEXT, NEXT, INDEX])
        path = root / name
        if name == INDEX:
            place, length = chance.randrange(1533) * 32 + chance.randrange(32), chance.choice([1, 4, 8, 32, 1000])
        else:
            start, size = chance.choice(entries(root, name) or [(0, 100)])
            place, length = start + chance.choice([chance.randrange(48), chance.randrange(size)]), chance.choice([1, 4, 8, 48, 2000])
        length = min(length, path.stat().st_size - place)
        data = chance.choice([bytes(length), chance.randbytes(length), b"\xff" * length])
        with path.open("r+b") as file:
            file.seek(place)
            file.write(data)
    release = RELEASES[seed % len(RELEASES)]
    assert predicted(root) == in_code(release, root, tmp_path)
