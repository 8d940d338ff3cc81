"""The verdict in one sentence: does a broker start, how, and what does that cost."""

from __future__ import annotations

from collections.abc import Iterator

from rmqstore.doctor.predicted import Prediction, lost_words
from rmqstore.recovery.consequences import Fate

COPY_FIRST = "copy the store before any start"


def sentence(prediction: Prediction, *, starts: bool | None, reason: str | None) -> str:
    """`reason`: the line of the log that says why it does not start, or what is unknown."""
    outcome = prediction.outcome
    broker = f"a broker of {outcome.release}"
    if starts is None:
        return f"unknown whether {broker} starts, because {reason or outcome.unknown}"
    if not starts:
        return f"{broker} does not start: {reason}; do not try it again, a failed start rewrites files"
    harm = "; ".join(_harm(prediction))
    how = f"{broker} starts in {outcome.mode} mode"
    if outcome.unknown is not None:
        harm = "; ".join(filter(None, [harm, f"not everything can be told: {outcome.unknown}"]))
    return f"{how}, but {harm}: {COPY_FIRST}" if harm else f"{how}, nothing is lost{_index(prediction)}"


def _index(prediction: Prediction) -> str:
    items = prediction.consequences.index_items_lost
    return f" but {items} items of the index (queries by key or id miss them, consuming does not)" if items else ""


def _harm(prediction: Prediction) -> Iterator[str]:
    if prediction.deletes_queues:
        count = len(prediction.queues) + len(prediction.batch_queues)
        yield f"it deletes all {count} queues, because the commit log is empty"
        return
    if prediction.cuts_log:
        yield f"it throws away {lost_words(prediction.loss)}"
    shifted = [queue for queue in prediction.harmed if queue.fate is Fate.SHIFTED]
    shorter = [queue for queue in prediction.harmed if queue.fate is not Fate.SHIFTED]
    if shifted:
        yield f"{len(shifted)} queues get messages at wrong offsets"
    if shorter:
        yield f"{len(shorter)} queues become shorter, {prediction.consequences.given_twice} queue offsets are given a second time"
    left = [queue for queue in prediction.behind if queue.left and queue.exists]
    if left:
        yield f"{sum(queue.left for queue in left)} messages of {len(left)} queues stay invisible"
