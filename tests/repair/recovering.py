"""Damaged copies of sample stores, recovered without a dialog, and what is left of their messages afterwards."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rmqstore.formats.consumequeue import UNIT, UNIT_SIZE
from rmqstore.formats.sysflag import SysFlag
from rmqstore.prediction.outcome import Outcome
from rmqstore.prediction.simulation import simulate
from rmqstore.repair.derived.consumequeues import LostUnits
from rmqstore.repair.procedure import RepairRequest, Result, execute, show
from rmqstore.repair.recover import Recovery, Strategy
from rmqstore.store.root import Store
from tests.repair.every_action import Yes
from tests.support import stores
from tests.support.damages import DAMAGES, apply
from tests.support.storeview import StoreView

QueuePlace = tuple[str, int, int]
"""Topic, queue id, queue offset."""


@functools.cache
def view_of(base: str) -> StoreView:
    """The undamaged sample store."""
    root = stores.sample_store(base)
    return StoreView(root, stores.case(base).settings(root))


@dataclass(frozen=True, slots=True)
class Damaged:
    """A damaged copy of a sample store at `root`."""

    base: str
    root: Path

    @property
    def release(self) -> str:
        return stores.case(self.base).release

    def open(self) -> Store:
        return Store.open(self.root, settings=stores.case(self.base).settings(self.root))

    def recover(
        self, strategy: Strategy = Strategy.SALVAGE, lost_units: LostUnits = LostUnits.NEIGHBOUR, release: str | None = None
    ) -> Result:
        """`rmqstore recover --yes`; what the plan says of the store afterwards has to be so on the disk."""
        recovery = Recovery(release or self.release, strategy, lost_units)
        wish = RepairRequest("recover", recovery.release, self.open, recovery.plan)
        result = execute(wish, Yes())
        if result.transaction is not None:
            after = result.plan.after
            assert after is not None
            assert (after.errors, after.left) == (result.errors, len(show(wish, Yes()).plan.actions))
        return result

    def predict(self, release: str | None = None) -> Outcome:
        """The next start of a broker."""
        return simulate(self.open(), release or self.release)

    def log_bytes(self, start: int, size: int) -> bytes:
        """Bytes of the log as they lie there, fewer where it ends."""
        return self.log()(start, size)

    def log(self) -> Callable[[int, int], bytes]:
        """`log_bytes` of the log as it is now, which is read once."""
        files = self.open().commitlog
        data = {file.start: file.path.read_bytes() for file in files.files}

        def read(start: int, size: int) -> bytes:
            file = files.find(start)
            return b"" if file is None else data[file.start][start - file.start :][:size]

        return read

    def unit(self, place: QueuePlace) -> tuple[int, int] | None:
        """(physical offset, size) of a queue unit, None without one."""
        topic, queue_id, offset = place
        size = view_of(self.base).queue_file_size
        start, position = divmod(offset * UNIT_SIZE, size)
        path = self.root / "consumequeue" / topic / str(queue_id) / f"{start * size:020d}"
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            stream.seek(position)
            data = stream.read(UNIT_SIZE)
        unit = UNIT.parse(data)
        return int(unit.physical_offset), int(unit.size)


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the ground truth: its place in queue and log, and its bytes before the damage."""

    place: QueuePlace
    position: int
    data: bytes


def damaged(base: str, damage: str, tmp_path: Path) -> Damaged:
    """A fresh copy of a sample store with a damage of the table."""
    root = stores.fresh_store(base, tmp_path)
    apply(DAMAGES[damage](view_of(base)), root)
    return Damaged(base, root)


@functools.cache
def messages_of(base: str) -> tuple[Message, ...]:
    """All messages of a sample store that have a place in a queue."""
    return tuple(_messages(base))


def _messages(base: str) -> Iterator[Message]:
    files = {file.start: view_of(base).read(file.path) for file in view_of(base).log_files}
    size = view_of(base).log_file_size
    for line in stores.case(base).truth():
        position = line["physicalOffset"]
        start = position - position % size
        if start in files and not line["sysFlag"] & SysFlag.TRANSACTION_PREPARED:
            data = files[start][position - start : position - start + line["size"]]
            yield Message((line["topic"], line["queueId"], line["queueOffset"]), position, data)
