"""The minimal repair: files that the load of a broker refuses are removed or corrected, and recovery is left to the broker."""

from __future__ import annotations

from collections.abc import Iterator

from rmqstore.repair.derived.consumequeues import QueueWish, plan_queues
from rmqstore.repair.derived.judgement import judge
from rmqstore.repair.derived.requests import Planning
from rmqstore.repair.derived.timer.wheel import plan_wheel_files
from rmqstore.repair.log import segments
from rmqstore.repair.log.edits import LogRepair, plan_log
from rmqstore.repair.log.future import FutureLog
from rmqstore.store.mapped import ProblemKind
from rmqstore.store.root import Store
from rmqstore.verify.queues.spans import QueueKey

_REFUSED = (ProblemKind.WRONG_LENGTH, ProblemKind.ZERO_LENGTH, ProblemKind.FOREIGN_NAME, ProblemKind.DIRECTORY)
"""Problems at which the load of a mapped file queue stops (fact sheet commit log §4.2)."""


def plan_minimal(planning: Planning, store: Store) -> None:
    """Plan the minimal repair. Raises RefusedError, UnreadableError, StoreChangedError, OSError."""
    builder = planning.builder
    log = segments.files_of(store)
    edits = [*segments.gone(log.odd), *segments.brought_to_length(store, log.files, log.file_size)]
    present = {str(file.path): file.length for file in log.files}
    judgement = judge(store, advance=planning.advance)
    future = FutureLog(
        tuple(log.full(file) for file in log.files), judgement.log.end_offset, damages=tuple(judgement.log.damages), present=present
    )
    plan_log(builder, LogRepair(future, files=tuple(edits)))
    plan_wheel_files(builder, store, judgement.log.last_timestamp)
    refused = frozenset(_refused_queues(store))
    if refused:
        plan_queues(planning, store, future, judgement, QueueWish(rebuild=True, queues=refused))
    builder.note("Only what keeps a broker from starting is repaired; `rmqstore recover --what-if` predicts what its recovery then does.")


def _refused_queues(store: Store) -> Iterator[QueueKey]:
    """Yield the queues whose files no broker loads."""
    for queue in (*store.queue_directories(), *store.batch_queue_directories(), *store.ext_queue_directories()):
        if any(problem.kind in _REFUSED for problem in queue.files.problems()):
            yield queue.topic, queue.queue_id
