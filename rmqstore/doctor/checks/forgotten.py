"""Groups that have consumed and have no offsets: they were lost from a file that is whole.

A consumer commits its offsets every five seconds, and a broker writes them as often. A message that a consumer returns waits in a delay
level for at least ten seconds before it is in the retry topic of its group, so soon after that the group has offsets (fact sheet timer
§3.2). Checks of transactions, one a minute, commit theirs with the first operation message that they have read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rmqstore.doctor.areas import Area, Effect, Harm, State
from rmqstore.doctor.checks.configfiles import ConfigFiles
from rmqstore.doctor.checks.queueunits import stored_at
from rmqstore.formats.naming import OP_HALF_TOPIC, RETRY_PREFIX
from rmqstore.prediction.outcome import QueueState
from rmqstore.verify.context import Context
from rmqstore.verify.parts.config import CONSUMER_OFFSETS, GROUPS, LMQ_OFFSETS
from rmqstore.verify.parts.config import State as TextState
from rmqstore.wording import counted

_WRITTEN_MS, _CRASHED_MS, _CHECKED_MS = 20_000, 60_000, 150_000
"""Offsets are in the file so long after the first message of such a topic; after a crash; and those of transactions."""
_TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"


def check(context: Context, files: ConfigFiles, queues: Mapping[str, QueueState]) -> Iterator[Effect]:
    """Yield the groups that start again. `queues`: by `topic/queueId`, as after the start."""
    if files.in_rocksdb or files.texts[CONSUMER_OFFSETS].state not in (TextState.WHOLE, TextState.TABLELESS):
        return
    known = {key.rpartition("@")[2] for name in (CONSUMER_OFFSETS, LMQ_OFFSETS) for key in files.table(name, "offsetTable")}
    configured = files.table(GROUPS, "subscriptionGroupTable")
    written = _CRASHED_MS if context.crashed else _WRITTEN_MS
    groups = {group for group in configured.keys() - known if _is_used(context, queues, RETRY_PREFIX + group, written)}
    if groups:
        names = min(groups) if len(groups) == 1 else counted(len(groups), "consumer group")
        text = f"consumers start again without offsets in {CONSUMER_OFFSETS}, although messages were returned: {names}"
        yield Effect(Area.PROGRESS, State.LOSES, text, Harm.REPEATED, len(groups))
    if _TRANSACTION_GROUP not in known and _is_used(context, queues, OP_HALF_TOPIC, _CHECKED_MS):
        yield Effect(Area.TRANSACTIONS, State.LOSES, "transactions are checked again, also finished ones", Harm.REPEATED)


def _is_used(context: Context, queues: Mapping[str, QueueState], topic: str, age: int) -> bool:
    """Return whether a topic, of which queue 0 is used first, had a message `age` milliseconds before the last one of the log."""
    state = queues.get(f"{topic}/0")
    if state is None or state.max_offset <= 0:
        return False
    first = stored_at(context, topic, 0, state.min_offset)
    return first is not None and first < context.log.last_timestamp - age
