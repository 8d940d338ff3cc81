"""The effects of the simulated start on log, queues and index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rmqstore.doctor.areas import Area, Effect, Harm, State, short_queue
from rmqstore.doctor.predicted import Prediction, loss_text
from rmqstore.prediction.consequences import QueueFate, QueueOutcome
from rmqstore.wording import counted


def effects_of(prediction: Prediction) -> Iterator[Effect]:
    """Yield the effects of the start on log, queues and index, and where they are unknown."""
    yield from _unknown(prediction)
    yield from _log(prediction)
    if prediction.deletes_queues:
        count = len(prediction.queues) + len(prediction.batch_queues)
        text = f"it deletes every queue ({count}), because the commit log is empty"
        yield Effect(Area.QUEUES, State.LOSES, text, Harm.LOST, count)
        return
    yield from _fates(prediction)
    yield from _invisible(prediction)
    yield from _index(prediction)


def _unknown(prediction: Prediction) -> Iterator[Effect]:
    outcome = prediction.outcome
    if outcome.unknown is not None and not prediction.context.store.rocksdb_queues:  # `contents` reads the entries of the database
        area = Area.OTHER if "compacted" in outcome.unknown else Area.COMMIT_LOG
        yield Effect(area, State.NOT_CHECKED, outcome.unknown)


def _log(prediction: Prediction) -> Iterator[Effect]:
    if any(finding.code == "RMQ-CL-NORECORD" for finding in prediction.range.findings):
        text = "the log holds no record, and new messages overwrite its bytes"
        yield Effect(Area.COMMIT_LOG, State.LOSES, text, Harm.LOST)
    if prediction.cuts_log:
        text = f"it discards {loss_text(prediction.loss)}"
        yield Effect(Area.COMMIT_LOG, State.LOSES, text, Harm.LOST, prediction.loss.messages)


def _fates(prediction: Prediction) -> Iterator[Effect]:
    shifted = [queue for queue in prediction.harmed if queue.fate is QueueOutcome.SHIFTED]
    shorter = [queue for queue in prediction.harmed if queue.fate is not QueueOutcome.SHIFTED]
    if shifted:
        yield Effect(Area.QUEUES, State.LOSES, f"{_queues(shifted)} will have messages at wrong offsets", Harm.INVISIBLE, len(shifted))
    if shorter:
        twice = prediction.consequences.given_twice
        text = f"{_queues(shorter)} will be shorter, {counted(twice, 'queue offset')} reused"
        yield Effect(Area.QUEUES, State.LOSES, text, Harm.REUSED, twice)


def _queues(fates: Sequence[QueueFate]) -> str:
    first = fates[0]
    return short_queue(first.topic, first.queue_id) if len(fates) == 1 else f"{len(fates)} queues"


def _invisible(prediction: Prediction) -> Iterator[Effect]:
    left = [queue for queue in prediction.lagging if queue.lasting]
    if left:
        count = sum(queue.left for queue in left)
        where = short_queue(left[0].topic, left[0].queue_id) if len(left) == 1 else f"{len(left)} queues"
        least = "at least " if any(queue.at_least for queue in left) else ""
        text = f"{least}{counted(count, 'message')} of {where} {'becomes' if count == 1 else 'become'} invisible"
        yield Effect(Area.QUEUES, State.LOSES, text, Harm.INVISIBLE, count)


def _index(prediction: Prediction) -> Iterator[Effect]:
    lost = prediction.consequences.index_items_lost
    unindexed = prediction.unindexed
    if lost:
        text = f"queries by key miss {lost} {'entry' if lost == 1 else 'entries'} of the index"
        yield Effect(Area.INDEX, State.LOSES, text, Harm.UNREACHABLE, lost)
    elif len(unindexed):
        atleast = "at least " if prediction.sample.unread else ""
        text = f"queries by key miss {atleast}{counted(len(unindexed), 'message')}, which no index file covers"
        yield Effect(Area.INDEX, State.LOSES, text, Harm.UNREACHABLE, len(unindexed))
