"""Record columns → the bytes of consume queues, index files and the checkpoint, as a broker would have written them from the log.

    scanner = LogScanner(checks=Check.BODY_CRC | Check.KEYS, delays=delays)
    queues = QueueBuilder(scanner.queue, settings, profile, sink, log_start=log.min_offset)
    index = IndexBuilder(scanner.queue, settings, profile, sink)
    rebuild((event for file in log.files for event in scanner.scan(file)), queues, index)
    made = queues.finish(), index.finish()

Damaged ranges are not among the batches and fillers make no units and index entries, so the log is exactly the batches of the scan. Batches
may be put into builders directly as well; `rebuild` runs the scan in a thread. `delays` are the ms per delay level as in the scanner.
"""

from rmqstore.rebuild.checkpoint import CheckpointValues, clean_checkpoint
from rmqstore.rebuild.index import IndexBuilder
from rmqstore.rebuild.queues import QueueBuilder
from rmqstore.rebuild.result import Gap, IndexResult, LeftOut, QueueKind, QueueResult, RebuiltIndexFile, RebuiltQueue, Restart
from rmqstore.rebuild.run import Builder, rebuild
from rmqstore.rebuild.settings import Mode, Settings
from rmqstore.rebuild.sink import MemorySink, Sink

__all__ = [
    "Builder",
    "CheckpointValues",
    "Gap",
    "IndexBuilder",
    "IndexResult",
    "LeftOut",
    "MemorySink",
    "Mode",
    "QueueBuilder",
    "QueueKind",
    "QueueResult",
    "RebuiltIndexFile",
    "RebuiltQueue",
    "Restart",
    "Settings",
    "Sink",
    "clean_checkpoint",
    "rebuild",
]
