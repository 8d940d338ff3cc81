"""What consumers get across a plugged hole, by what the queue unit of the lost message has become.

This is why a repair makes such a unit a copy of its neighbour, or, when asked to, the unit of a placeholder, and never anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from rmqstore.formats import consumequeue
from rmqstore.formats.naming import offset_to_file_name
from rmqstore.repair.log.fillers import FILLER_TOPIC, PLACEHOLDER_PROPERTIES, LostRecord, Neighbour, Segment, Style, filler
from tests.broker.consumed_messages import Broker, Line, NotServed, Questions, Start
from tests.broker.harness import Harness
from tests.broker.toolchain import JarsMissing, missing, prepared
from tests.support import operations, stores
from tests.support.operations import Op, Write
from tests.support.storeview import UNIT_SIZE

RELEASES = ("4.9.8", "5.5.1")
QUEUE = ("TopicA", 0)
PULL = 32
"""Messages that are asked for at a time."""

PRE_BLANK_SIZE = 0x7FFFFFFF

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"the real store code cannot run here: {missing()}"),
]


@dataclass(frozen=True, slots=True)
class Hole:
    """The queue in the sample, the number of the message that is lost, and the bytes of log and queue files."""

    queue: Sequence[Line]
    lost: int
    log_file: int
    queue_file: int

    @property
    def start(self) -> int:
        return int(self.queue[self.lost]["physicalOffset"])

    @property
    def size(self) -> int:
        return int(self.queue[self.lost]["size"])

    @property
    def offsets(self) -> list[int]:
        return [line["physicalOffset"] for line in self.queue]

    def plug(self, *, placeholder: bool = False) -> list[Op]:
        """The lost record becomes a filler, as a repair makes it."""
        lost = LostRecord(self.start, self.size, *QUEUE, self.lost)
        neighbour = Neighbour(self.queue[self.lost - 1]["storeTimestamp"])
        patches = filler(Segment(lost.start, lost.end, lost), neighbour, Style(placeholders=placeholder))
        path = f"commitlog/{offset_to_file_name(self.start // self.log_file * self.log_file)}"
        return [Write(path, patch.start % self.log_file, patch.data or bytes(patch.end - patch.start)) for patch in patches]

    def unit(self, number: int | None = None, *, start: int | None = None, size: int | None = None) -> list[Op]:
        """The unit of the lost message is written: that of message `number`, or what is named."""
        line = self.queue[self.lost if number is None else number]
        unit = consumequeue.UNIT.build(
            {
                "physical_offset": line["physicalOffset"] if start is None else start,
                "size": line["size"] if size is None else size,
                "tags_code": 0,
            }
        )
        return [self._at_unit(bytes(unit))]

    def zero_unit(self) -> list[Op]:
        """The unit of the lost message is zeros."""
        return [self._at_unit(bytes(UNIT_SIZE))]

    def _at_unit(self, data: bytes) -> Op:
        position = self.lost * UNIT_SIZE
        name = offset_to_file_name(position // self.queue_file * self.queue_file)
        return Write(f"consumequeue/{QUEUE[0]}/{QUEUE[1]}/{name}", position % self.queue_file, data)


UNITS: Mapping[str, Callable[[Hole], list[Op]]] = {
    "as it was": lambda hole: [],
    "previous": lambda hole: hole.unit(hole.lost - 1),
    "next": lambda hole: hole.unit(hole.lost + 1),
    "pre-blank": lambda hole: hole.unit(start=0, size=PRE_BLANK_SIZE),
    "pre-blank in the first log file": lambda hole: hole.unit(start=0, size=PRE_BLANK_SIZE),
    "pre-blank that points at the filler": lambda hole: hole.unit(size=PRE_BLANK_SIZE),
    "one byte long": lambda hole: hole.unit(size=1),
    "zeros": Hole.zero_unit,
    "negative offset": lambda hole: hole.unit(start=-1, size=100),
}
PLACEHOLDER = "placeholder"


def hole_in(release: str, *, first_file: bool) -> Hole:
    """The lost message lies in the middle of its queue: in the first log file, or in a later one."""
    case = stores.case(f"{release}-plain")
    sizes = case.settings(case.directory)
    queue = [line for line in case.truth() if (line["topic"], line["queueId"]) == QUEUE]
    log_file = int(sizes["mappedFileSizeCommitLog"])
    in_first = sum(line["physicalOffset"] < log_file for line in queue)
    assert 3 < in_first < PULL < len(queue)
    return Hole(queue, in_first // 2 if first_file else (in_first + PULL) // 2, log_file, int(sizes["mappedFileSizeConsumeQueue"]))


@dataclass(frozen=True, slots=True)
class Seen:
    """What the release serves for each kind of unit; a text where it does not."""

    release: str
    starts: Mapping[str, Start | str]

    def pulled(self, kind: str) -> tuple[Line, ...]:
        start = self.starts[kind]
        assert isinstance(start, Start), start
        return start.pulled[QUEUE]

    def offsets(self, kind: str) -> list[int]:
        """Physical offsets of what a consumer of the queue gets."""
        return [line.get("physicalOffset", -1) for line in self.pulled(kind)]


@pytest.fixture(scope="module", params=RELEASES)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """All kinds side by side in one JVM of the release."""
    try:
        prepared(request.param)
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of {request.param}: {error}")
    return Seen(request.param, _seen(request.param, tmp_path_factory.mktemp("holes")))


def _seen(release: str, scratch: Path) -> dict[str, Start | str]:
    kinds = [*UNITS, PLACEHOLDER]
    with Harness(release, len(kinds)) as harness, ThreadPoolExecutor(len(kinds)) as pool:
        running: dict[str, Future[Start | str]] = {
            kind: pool.submit(_start, harness, stores.fresh_store(f"{release}-plain", scratch / str(number)), release, kind)
            for number, kind in enumerate(kinds)
        }
        return {kind: future.result() for kind, future in running.items()}


def _start(harness: Harness, root: Path, release: str, kind: str) -> Start | str:
    hole = hole_in(release, first_file="first log file" in kind)
    unit = [] if kind == PLACEHOLDER else UNITS[kind](hole)
    operations.apply([*hole.plug(placeholder=kind == PLACEHOLDER), *unit], root)
    try:
        return Broker(harness, root, stores.case(f"{release}-plain").settings(root), {}).start(Questions())
    except NotServed as error:
        return str(error)


@pytest.mark.parametrize(("kind", "step"), [("previous", -1), ("next", 1)])
def test_a_neighbour_is_served_twice_and_nothing_else_changes(seen: Seen, kind: str, step: int) -> None:
    hole = hole_in(seen.release, first_file=False)
    expected = hole.offsets
    expected[hole.lost] = expected[hole.lost + step]
    assert seen.offsets(kind) == expected


def test_a_placeholder_says_what_it_is(seen: Seen) -> None:
    hole = hole_in(seen.release, first_file=False)
    pulled = seen.pulled(PLACEHOLDER)
    assert seen.offsets(PLACEHOLDER) == hole.offsets
    told = pulled[hole.lost]
    assert (told["topic"], told["queueId"], told["queueOffset"]) == (*QUEUE, hole.lost)
    assert told["properties"] == PLACEHOLDER_PROPERTIES
    for line, sent in zip(pulled, hole.queue, strict=True):
        assert line is told or line["properties"] == sent["properties"]


def test_a_unit_that_is_left_serves_the_filler(seen: Seen) -> None:
    hole = hole_in(seen.release, first_file=False)
    assert seen.offsets("as it was") == hole.offsets
    assert seen.pulled("as it was")[hole.lost]["topic"] == FILLER_TOPIC


def test_a_pre_blank_serves_nothing_in_its_place(seen: Seen) -> None:
    hole = hole_in(seen.release, first_file=False)
    assert seen.offsets("pre-blank") == hole.offsets[: hole.lost] + hole.offsets[hole.lost + 1 :]


def test_a_pre_blank_in_the_first_log_file_hides_messages_behind_it(seen: Seen) -> None:
    """The broker takes it for a message of an expired file and goes on with the next file, within one pull."""
    hole = hole_in(seen.release, first_file=True)
    served = seen.offsets("pre-blank in the first log file")
    hidden = [offset for offset in hole.offsets[hole.lost + 1 : PULL] if offset < hole.log_file]
    assert hidden
    assert served == [offset for offset in hole.offsets if offset not in (hole.start, *hidden)]


def test_a_pre_blank_that_points_into_the_log_stops_the_queue(seen: Seen) -> None:
    assert isinstance(seen.starts["pre-blank that points at the filler"], str)


def test_a_size_that_is_no_message_cannot_be_decoded(seen: Seen) -> None:
    hole = hole_in(seen.release, first_file=False)
    assert seen.offsets("one byte long") == [*hole.offsets[: hole.lost], -1, *hole.offsets[hole.lost + 1 :]]


@pytest.mark.parametrize("kind", ["zeros", "negative offset"])
def test_an_invalid_unit_cuts_the_queue(seen: Seen, kind: str) -> None:
    hole = hole_in(seen.release, first_file=False)
    assert seen.offsets(kind) == hole.offsets[: hole.lost]
