"""The verdict in one sentence: does a broker start, how, and what does that cost."""

from __future__ import annotations

from collections.abc import Iterator

from rmqstore.doctor.predicted import Prediction, counted, lost_words
from rmqstore.recovery.consequences import Fate

COPY_FIRST = "copy the store before any start"


def sentence(prediction: Prediction, *, starts: bool | None, reason: str | None, timer_spins: bool = False) -> str:
    """`reason`: the line of the log that says why it does not start, or what is unknown."""
    outcome = prediction.outcome
    broker = f"a broker of {outcome.release}"
    if starts is None:
        return f"unknown whether {broker} starts, because {reason or outcome.unknown}"
    if not starts:
        return f"{broker} does not start: {reason}; do not try it again, a failed start rewrites files"
    harm = "; ".join([*_harm(prediction), *(["its timer spins until memory is full"] if timer_spins else [])])
    how = f"{broker} starts in {outcome.mode} mode"
    if harm:
        return f"{how}, but {harm}: {COPY_FIRST}"
    if outcome.unknown is not None:
        return f"{how}, but not everything that it does can be told: {outcome.unknown}"
    return f"{how}, nothing is lost{_index(prediction)}"


def _index(prediction: Prediction) -> str:
    items = prediction.consequences.index_items_lost
    return f" but {counted(items, 'item')} of the index (queries by key or id miss them, consuming does not)" if items else ""


def _harm(prediction: Prediction) -> Iterator[str]:
    if prediction.deletes_queues:
        count = len(prediction.queues) + len(prediction.batch_queues)
        yield f"it deletes every queue ({count}), because the commit log is empty"
        return
    if any(finding.code == "RMQ-CL-NORECORD" for finding in prediction.range.findings):
        yield "the log holds no record, and new messages are written over what stands there"
    if prediction.cuts_log:
        yield f"it throws away {lost_words(prediction.loss)}"
    shifted = [queue for queue in prediction.harmed if queue.fate is Fate.SHIFTED]
    shorter = [queue for queue in prediction.harmed if queue.fate is not Fate.SHIFTED]
    if shifted:
        yield f"{counted(len(shifted), 'queue')} will have messages at wrong offsets"
    if shorter:
        yield f"{counted(len(shorter), 'queue')} will be shorter, {counted(prediction.consequences.given_twice, 'queue offset')} used again"
    left = [queue for queue in prediction.behind if queue.code in ("RMQ-CQ-START", "RMQ-CQ-MISSING")]
    if left:
        yield f"{counted(sum(queue.left for queue in left), 'message')} of {counted(len(left), 'queue')} will be invisible"
