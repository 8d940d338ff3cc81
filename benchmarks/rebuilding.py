"""Rebuild of queues and index from the log: ours into a staging area, and beside it the broker's own on a copy of the same log.

Both leave their files in the page cache, neither forces them to the disk. Ours scans in one thread and builds in another; a broker recovers
as after a crash, without queues, index and checkpoint. Both check the CRC of every body.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.generator import Made
from benchmarks.measure import Runs
from rmqstore.formats.delay import DEFAULT_DELAY_LEVELS
from rmqstore.rebuild import IndexBuilder, IndexResult, QueueBuilder, QueueResult, Settings, rebuild
from rmqstore.repair.derived.rebuild import StagedFiles
from rmqstore.repair.plan.staging import StagedFile, Staging
from rmqstore.scan.ahead import BATCH, BUFFERS
from rmqstore.scan.columns import Check
from rmqstore.scan.walk import LogScanner
from rmqstore.store.root import Store
from rmqstore.versions import profile_of

WRITTEN_AS = "5.3.3"
"""The release whose files the generator writes."""
BROKERS = {"4.9.8": 8, "5.3.3": 20}
"""Releases that are measured beside, and how many times as fast the rebuild has to be."""


def ours(made: Made, repeat: int) -> Runs:
    """Rebuilds queues and index `repeat` times; the first of one run more warms up, and its files are compared with those of the store.

    Raises RuntimeError when they differ.
    """
    runs = Runs(made.records)
    for number in range(repeat + 1):
        with _directory(made) as target:
            wall, processor = time.perf_counter(), time.process_time()
            queues, index, files = _build(made, target)
            runs.seconds.append(time.perf_counter() - wall)
            runs.processor_seconds.append(time.process_time() - processor)
            if number == 0:
                _compare(made, files, queues, index)
    del runs.seconds[0], runs.processor_seconds[0]
    return runs


def broker(made: Made, release: str) -> Runs | None:
    """The broker's own rebuild, once; None where there is no Java to run it. Raises RuntimeError when it does not load the store."""
    from tests.broker import toolchain
    from tests.broker.harness import Harness

    if toolchain.missing() is not None:
        return None
    runs = Runs(made.records)
    with _directory(made) as target, Harness(release, 1) as harness:
        shutil.copytree(made.root / "commitlog", target / "commitlog")
        (target / "abort").touch()
        settings = {f"?{key}": value for key, value in made.shape.settings.items()}
        job = {"command": "recover", "dir": str(target), "profile": "default", "set": settings, "topics": {}, "queues": []}
        answer = harness.ask({**job, "noStart": True, "unwatched": True})
        if not answer.get("loadOk") or answer["S1"]["maxPhyOffset"] != made.log_bytes:
            raise RuntimeError(f"{release} does not recover the store that was made: {answer}")
        runs.seconds.append(answer["loadMillis"] / 1000)
    return runs


def _build(made: Made, target: Path) -> tuple[QueueResult, IndexResult, Mapping[str, StagedFile]]:
    shape = made.shape
    settings = Settings(mapped_file_size_consume_queue=shape.queue_file_size, max_hash_slot_num=shape.slots, max_index_num=shape.items)
    log = Store.open(made.root, settings=shape.settings).commitlog
    delays = np.array([0, *DEFAULT_DELAY_LEVELS], np.int64)
    scanner = LogScanner(checks=Check.BODY_CRC | Check.KEYS, delays=delays, batch=BATCH, buffers=BUFFERS)
    sink, profile = StagedFiles(Staging(target, forced=False)), profile_of(WRITTEN_AS)
    queues = QueueBuilder(scanner.queue, settings, profile, sink, log_start=log.min_offset)
    index = IndexBuilder(scanner.queue, settings, profile, sink)
    rebuild((event for file in log.files for event in scanner.scan(file)), queues, index)
    return queues.finish(), index.finish(), sink.files


def _compare(made: Made, files: Mapping[str, StagedFile], queues: QueueResult, index: IndexResult) -> None:
    """Queue files by name; index files by their order, because they are named by a clock."""
    paths = {path: path for queue in queues.queues for path in queue.files}
    clocked = sorted(f"index/{path.name}" for path in (made.root / "index").iterdir())
    paths |= dict(zip((file.path for file in index.files), clocked, strict=True))
    written = sum(1 for part in ("consumequeue", "index") for path in (made.root / part).rglob("*") if path.is_file())
    if len(paths) != written:
        raise RuntimeError(f"{len(paths)} files were rebuilt, the store has {written}")
    for mine, theirs in paths.items():
        if not np.array_equal(np.memmap(files[mine].path, np.uint8, "r"), np.memmap(made.root / theirs, np.uint8, "r")):
            raise RuntimeError(f"the rebuilt {mine} is not {theirs} of the store")


@contextmanager
def _directory(made: Made) -> Iterator[Path]:
    """A directory beside the store, on the same file system, removed afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="rebuilt-", dir=made.root.parent))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)
