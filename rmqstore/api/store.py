"""A store as an object: its content, its faults, the effect of a broker on it, and its repair."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqstore.api.index import Index
from rmqstore.api.log import Log
from rmqstore.api.queue import Queue
from rmqstore.errors import UsageError
from rmqstore.pipeline.job import StoreAt
from rmqstore.store.rocksdb.asfiles import with_file_queues
from rmqstore.store.window import read_whole

if TYPE_CHECKING:
    from rmqstore.api.findings import Verification
    from rmqstore.api.plan import Plan
    from rmqstore.api.start import Diagnosis, Prediction

AUTO = "auto"
_LARGEST_FILE = 1 << 26


class Store:
    """The store of one broker. Opening it reads directory names only; nothing but `Plan.apply` writes into it."""

    def __init__(self, path: Path | str, broker_conf: Path | str | None = None, settings: Mapping[str, str] | None = None) -> None:
        """Open `path`, a storePathRootDir or a copy of one of its parts. Raises UnreadableError, NotAStoreError, UsageError."""
        self._at = StoreAt.of(Path(path), None if broker_conf is None else Path(broker_conf), settings)
        self._store = self._at.open()

    @property
    def path(self) -> Path:
        """Return the root directory."""
        return self._store.root

    @property
    def crashed(self) -> bool:
        """Return whether `abort` exists: the broker runs, or did not stop cleanly."""
        return self._store.abort_present

    @cached_property
    def log(self) -> Log:
        """Return the commit log."""
        return Log(self._store, self._at)

    @cached_property
    def index(self) -> Index:
        """Return the index files."""
        return Index(self._store)

    def queues(self) -> list[Queue]:
        """Return the consume queues, by topic and queue id. Raises UnreadableError.

        Queues in RocksDB become files in the temporary directory, for the life of this object; a missing entry is a unit of zeros.
        """
        return list(self._queues.values())

    def queue(self, topic: str, queue_id: int) -> Queue:
        """Return one consume queue. Raises UsageError if there is none, and what `queues` raises."""
        queue = self._queues.get((topic, queue_id))
        if queue is not None:
            return queue
        raise UsageError(f"{self.path} has no consume queue {topic}/{queue_id}.", "`Store.queues()` lists them all.")

    @cached_property
    def _queues(self) -> dict[tuple[str, int], Queue]:
        stack = ExitStack()
        weakref.finalize(self, stack.close)
        store = stack.enter_context(with_file_queues(self._store))
        found = [
            *(Queue(self.log, one, batch=False) for one in store.queue_directories()),
            *(Queue(self.log, one, batch=True) for one in store.batch_queue_directories()),
        ]
        return {(queue.topic, queue.queue_id): queue for queue in sorted(found, key=lambda queue: (queue.topic, queue.queue_id))}

    def find(self, *, scan: bool = False, **wanted: Any) -> Iterator[dict[str, Any]]:
        """Yield the messages that `rmqstore query` finds, as its JSON shows them, each with its `way`.

        `wanted`: one of key, unique_key, offset_id, queue, time (texts as for the options) and physical_offset, with some of them topic.
        `scan`: search the whole log. Raises UsageError, UnreadableError, StoreChangedError.
        """
        from rmqstore.query.search import Search
        from rmqstore.query.wanted import wanted_by

        return Search(self._store, wanted_by(**wanted), scan=scan).messages()

    def diff(self, other: Store, *, deep: bool = False) -> dict[str, Any]:
        """Return the comparison with another store, as the JSON of `rmqstore diff` shows it; `deep`: all bytes of both logs.

        Raises UnreadableError, StoreChangedError.
        """
        import time

        from rmqstore.diff.comparison import compare
        from rmqstore.diff.copies import Copy

        one, second = Copy.of(self.path, self._store), Copy.of(other.path, other._store)
        return compare(one, second, deep=deep, now=int(time.time() * 1000)).as_json()

    def checkpoint(self) -> dict[str, int] | None:
        """Return the fields of `checkpoint`, ms since the epoch or bytes; None without the file. Raises UnreadableError."""
        from rmqstore.dump.small import read_checkpoint

        path = self._store.checkpoint_path
        if not path.is_file():
            return None
        fields = next(iter(read_checkpoint(read_whole(path, _LARGEST_FILE), path.name)))
        return {name: value for name, value in fields.items() if isinstance(value, int)}

    def config(self) -> dict[str, Any]:
        """Return the JSON files of `config/` by name, parsed. Raises UnreadableError, ValueError for a damaged file."""
        from rmqstore.dump.small import read_json

        directory = self._store.config_path
        paths = sorted(path for path in directory.glob("*.json") if path.is_file()) if directory.is_dir() else []
        return {path.name: next(iter(read_json(read_whole(path, _LARGEST_FILE), path.name)))["content"] for path in paths}

    def verify(
        self, *, parts: Iterable[str] = (), topics: Iterable[str] = (), quick: bool = False, threads: int | None = None
    ) -> Verification:
        """Return the findings of a verification, as `rmqstore verify` makes it with the options of the same names.

        `threads`: None for one per processor. Raises UnreadableError.
        """
        from rmqstore.api.findings import verify

        return verify(self._at, frozenset(parts), frozenset(topics), quick=quick, threads=threads)

    def diagnose(self, release: str = AUTO) -> Diagnosis:
        """Return the cost of the next start of a broker of `release` in each area, as `rmqstore doctor` prints it.

        `release`: a version such as "5.3.3", or "auto" for the newest one that can have written the store. Raises UsageError.
        """
        from rmqstore.api.start import diagnose

        return diagnose(self._at, release)

    def predict(self, release: str = AUTO) -> Prediction:
        """Return the effect of a broker of `release` on the store at its next start. Raises UsageError, UnreadableError."""
        from rmqstore.api.start import predict

        return predict(self._at, release)

    def plan_recover(
        self,
        release: str = AUTO,
        *,
        strategy: str = "salvage",
        lost_units: str = "neighbour",
        copies: Iterable[Path | str] = (),
        extend: bool = False,
    ) -> Plan:
        """Return the plan of `rmqstore recover`; nothing is written into the store.

        `copies`: other copies of the log, as for `--from`; `extend`: take what they have after its end, too.
        Raises RefusedError, for example while a broker holds the store, UnreadableError, UsageError.
        """
        from rmqstore.api.plan import plan_recover

        return plan_recover(self._at, release, strategy, lost_units, tuple(map(Path, copies)), extend)

    def undo(self, transaction: str | None = None) -> None:
        """Undo a repair by the name of its transaction; without a name, the one that was stopped. Raises RefusedError, OSError."""
        from rmqstore.api.plan import undo

        undo(self.path, transaction)

    def __repr__(self) -> str:
        return f"<rmqstore.Store {str(self.path)!r}>"

    def _repr_html_(self) -> str:
        from rmqstore.api.html import table

        parts = [(self._store.relative(part.path), part.files, part.length) for part in self._store.parts()]
        return table(f"Store {self.path}", ("part", "files", "bytes"), parts)
