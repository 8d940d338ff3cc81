"""The minimal repair: files that the load of a broker refuses are removed or corrected, and recovery is left to the broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rmqstore.repair.derived.consumequeues import QueueWish, plan_queues
from rmqstore.repair.derived.judgement import judge
from rmqstore.repair.derived.rebuild import Rebuilder
from rmqstore.repair.derived.timer.wheel import plan_wheel_files
from rmqstore.repair.log import segments
from rmqstore.repair.log.edits import LogRepair, plan_log
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.plan.staging import Staging
from rmqstore.store.mapped import ProblemKind
from rmqstore.store.root import Store
from rmqstore.verify.queues.units import QueueKey
from rmqstore.versions import Profile

Advance = Callable[[int], None]
_REFUSED = (ProblemKind.WRONG_LENGTH, ProblemKind.ZERO_LENGTH, ProblemKind.FOREIGN_NAME, ProblemKind.DIRECTORY)
"""Problems at which the load of a mapped file queue stops (fact sheet commit log §4.2)."""


def plan_minimal(
    builder: PlanBuilder,
    staging: Staging,
    store: Store,
    profile: Profile,
    *,
    advance: Advance = lambda count: None,
    rebuilder: Rebuilder | None = None,
) -> None:
    """Plan the minimal repair; `rebuilder` builds queues, without it this process.

    Raises RefusedError, UnreadableError, StoreChangedError, OSError.
    """
    log = segments.files_of(store)
    edits = [*segments.gone(log.odd), *segments.brought_to_length(store, log.files, log.file_size)]
    present = {str(file.path): file.length for file in log.files}
    judgement = judge(store, advance=advance)
    future = FutureLog(
        tuple(log.full(file) for file in log.files), judgement.log.end_offset, damages=tuple(judgement.log.damages), present=present
    )
    plan_log(builder, staging, LogRepair(future, files=tuple(edits)))
    plan_wheel_files(builder, staging, store, judgement.log.last_timestamp)
    refused = frozenset(_refused_queues(store))
    if refused:
        wish = QueueWish(rebuild=True, queues=refused)
        plan_queues(builder, staging, store, profile, future, judgement, wish, advance=advance, rebuilder=rebuilder)
    builder.note("Only what keeps a broker from starting is repaired; `rmqstore recover --what-if` predicts what its recovery then does.")


def _refused_queues(store: Store) -> Iterator[QueueKey]:
    """Yield the queues whose files no broker loads."""
    for queue in (*store.queue_directories(), *store.batch_queue_directories(), *store.ext_queue_directories()):
        if any(problem.kind in _REFUSED for problem in queue.files.problems()):
            yield queue.topic, queue.queue_id
