"""Damages sample stores, repairs them by the command line, and lets whole brokers serve what the repair promised.

python -m tests.broker.whole_broker --cases 20 --seed 1                                        20 cases out of all
python -m tests.broker.whole_broker --base broker-5.5.1-crash --damage body-flip-mid           one damage of one store
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import product
from pathlib import Path

from tests.broker.append_only import data_files, not_appended
from tests.broker.consumed_messages import NotServed
from tests.broker.expected_messages import Promise
from tests.broker.repaired import ABORT, NOTHING_TO_DAMAGE, RepairCase, RepairedStore, RepairVerdict, planned_damage, run
from tests.broker.sent_messages import Message
from tests.broker.toolchain import WHOLE, prepared
from tests.broker.whole_start import Asked, WholeStart, start
from tests.support import stores
from tests.support.damages import DAMAGES
from tests.support.storeview import StoreView

MODULE = "tests.broker.whole_broker"
JOBS = 2
RELEASES = {"4.9.7": "4.9.7", "4.9.8": "4.9.7", "5.3.3": "5.3.3", "5.5.1": "5.5.1"}
"""Release that wrote a sample: release of the broker. The broker of 4.9.8 was never published; nothing in its store differs from 4.9.7."""

_LAID_OUT_ELSEWHERE = ("broker-5.3.3-dledger-clean",)
_PLAIN = ("4.9.8-plain", "5.3.3-plain", "5.5.1-plain")
_DATA = ("commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext", "index")


def bases() -> list[str]:
    """The sample stores of whole brokers, and some that the store code wrote by itself: a broker finds no configuration in them."""
    return [case.name for case in stores.cases() if case.is_broker and case.name not in _LAID_OUT_ELSEWHERE] + list(_PLAIN)


def whole_case(base: str, damage: str, abort: str) -> RepairCase:
    """A case for the broker that belongs to the store."""
    return RepairCase(base, damage, abort, RELEASES[stores.case(base).release])


def judge_all(cases: Iterable[RepairCase], jobs: int = JOBS) -> Iterator[RepairVerdict]:
    """A verdict on each case: repairs one by one, so many brokers side by side. Raises JarsMissing."""
    with ThreadPoolExecutor(jobs) as pool, tempfile.TemporaryDirectory() as scratch:
        running: list[Future[RepairVerdict]] = []
        for number, case in enumerate(cases):
            prepared(case.release, WHOLE)
            planned = planned_damage(case)
            if planned is None:
                yield RepairVerdict(case, undone=NOTHING_TO_DAMAGE)
                continue
            of_case = Path(scratch) / str(number)
            running.append(pool.submit(_judge, RepairedStore(case, planned, of_case), of_case))
        yield from (future.result() for future in running)


def _judge(store: RepairedStore, scratch: Path) -> RepairVerdict:
    if store.promise.refused:
        return RepairVerdict(store.case, tuple(store.problems))
    try:
        return RepairVerdict(store.case, (*store.problems, *_broken(store, scratch)))
    except NotServed as error:
        return RepairVerdict(store.case, (*store.problems, f"the broker does not serve: {error}"))


def _broken(store: RepairedStore, scratch: Path) -> Iterator[str]:
    """Starts twice; every way in which what clients get is not what was promised. Raises NotServed."""
    release, root, settings = store.case.release, store.root, store.sample.settings(store.root)
    view = StoreView(root, settings)
    repaired = data_files(root, _directories(settings))
    asked = _everything(store.promise)
    first = start(release, root, settings, asked, scratch / "first")
    stopped = data_files(root, _directories(settings))
    queues = sorted({*asked.queues, *(f"{new['topic']}/{new['queue']}" for new in first.new)})
    second = start(release, root, settings, Asked(queues), scratch / "second")
    stopped_again = data_files(root, _directories(settings))

    yield from store.promise.broken_at_first(first.below(view.end), store.lost, first.hidden)
    yield from _new_messages(first, second)
    yield from _later(first, second)
    moments = (("first", first, repaired, stopped), ("second", second, stopped, stopped_again))
    for name, one, before, after in moments:
        yield from (f"the {name} start: {text}" for text in (*_disorder(one), *not_appended(before, after, view.items_position)))


def _directories(settings: Mapping[str, str]) -> list[str]:
    """What no start may change; RocksDB writes files at every start, whatever is in it."""
    return [name for name in _DATA if name != "consumequeue" or "storeType" not in settings]


def _everything(promise: Promise) -> Asked:
    """Every queue that ever had a message, every key and every id of messages that the damage left alone; and new messages are sent."""
    places = {place for message in (*promise.intact, *promise.damaged) for place, _ in message.places}
    return Asked(
        queues=sorted(f"{topic}/{queue}" for topic, queue in places),
        keys=[f"{topic}:{key}" for topic, key in promise.questions.keys],
        ids=[f"{_topic_by_id(message)}:{message.line['offsetMsgId']}" for message in promise.intact],
        send=True,
    )


def _topic_by_id(message: Message) -> str:
    """The topic that 5.5 wants to hear in a request by id: a delayed or half message counts as one of the topic that it is meant for."""
    return str(message.line["properties"].get("REAL_TOPIC", message.line["topic"]))


def _new_messages(first: WholeStart, second: WholeStart) -> Iterator[str]:
    if not first.new:
        yield "no new message was sent"
    for new in first.new:
        where, physical = f"a new message of {new['topic']}/{new['queue']}", new["physicalOffset"]
        if new["status"] != "SEND_OK":
            yield f"{where} is refused: {new['status']}"
        if new["byQueue"] != [physical] or new["byKey"] != [physical] or new["byId"] != new["key"]:
            yield f"{where} is not found: by queue {new['byQueue']}, by key {new['byKey']}, by id {new['byId']}, not at {physical}"
        later = second.queues[new["topic"], new["queue"]].get(new["queueOffset"])
        if later is None or later["physicalOffset"] != physical:
            yield f"{where} is not at {new['queueOffset']} after the second start"


def _later(first: WholeStart, second: WholeStart) -> Iterator[str]:
    """What was served stays where it was; only what came later is behind it."""
    for queue, served in first.queues.items():
        again = {place: line for place, line in second.queues[queue].items() if place <= max(served, default=-1)}
        if again != served:
            yield f"after the second start {queue} serves other messages"


def _disorder(one: WholeStart) -> Iterator[str]:
    yield from (f"refuses {refusal}" for refusal in one.refused)
    if not any(one.queues.values()):
        yield "no message is served"
    if not one.caught_up:
        yield "queues do not catch up with the log"
    if one.abort_left:
        yield "abort is left behind"
    for queue, of_queue in one.queues.items():
        for (place, line), following in zip(of_queue.items(), list(of_queue)[1:], strict=False):
            taken = int(line["properties"].get("INNER_NUM", 1))
            if following != place + taken:
                yield f"{queue} has nothing from {place + taken} to {following}"
        wrong = [place for place, line in of_queue.items() if line["bodyLength"] and line["bodyCrc"] != line["storedCrc"]]
        if wrong:
            yield f"{queue} serves wrong bodies at {wrong[:5]}"


def all_cases() -> list[RepairCase]:
    """Every such store × every named damage × `abort`."""
    return [whole_case(base, damage, abort) for base, damage, abort in product(bases(), DAMAGES, ABORT)]


if __name__ == "__main__":
    sys.exit(run(MODULE, __doc__, all_cases(), judge_all, JOBS))
