"""The QUEUEOFFSETs of each queue along the whole log, from the passes over its files, and those that the records around contradict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rmqstore.findings import Finding
from rmqstore.reading.continuity import Misnumbered, Segment, misnumbered, room_of
from rmqstore.verify.context import Context
from rmqstore.verify.queues.spans import QueueKey, QueueSpan, Spans


def courses_of(spans: Spans) -> dict[QueueKey, list[Segment]]:
    """Return the segments of each queue in the order of the log."""
    return {key: list(_segments(span)) for key, span in spans.by_queue().items() if span.records}


def _segments(span: QueueSpan) -> Iterator[Segment]:
    start, first = span.first_offset, span.first_position
    for event in span.events:
        yield Segment(start, int(event["expected"]), first, int(event["after"]))
        start, first = int(event["found"]), int(event["position"])
    yield Segment(start, span.next_offset, first, span.last_position)


def contradicted(context: Context, courses: Mapping[QueueKey, Sequence[Segment]]) -> Iterator[tuple[QueueKey, Misnumbered]]:
    """Yield the records of which those before and after them in their queue leave one QUEUEOFFSET each, and they have others.

    A single record with 0 is none: a broker that lost the queue wrote it, and numbered the next one by the queue that a start rebuilt.
    """
    room = room_of(sorted([*context.log.damages, *context.options.given_up]))
    for key, segments in courses.items():
        for run in misnumbered(segments, room, from_zero=context.log.min_offset == 0):
            began_again = len(run.segments) == 1 and (run.segments[0].start, run.segments[0].end) == (0, 1)
            if run.certain and run.starts is not None and not began_again:
                yield key, run


def jump_finding(context: Context, key: QueueKey, run: Misnumbered) -> Finding:
    """Return the finding about such records of one queue."""
    count = sum(segment.width for segment in run.segments)
    first, starts = run.segments[0], run.starts or (0,)
    values = f"{starts[0]}" if count == 1 else f"{starts[0]} to {starts[-1] + run.segments[-1].width - 1}"
    text = f"wrong QUEUEOFFSETs: the records before and after leave {values}"
    return queue_offset_finding(context, "RMQ-CL-QOFFSET-JUMP", text, key, first.first, expected=starts[0], found=first.start)


def queue_offset_finding(context: Context, code: str, text: str, key: QueueKey, offset: int, *, expected: int, found: int) -> Finding:
    """Return a finding about the QUEUEOFFSET, `found`, of the record at a physical offset."""
    return context.log_finding(code, text, offset, topic=key[0], queue_id=key[1], queue_offset=found, expected=expected, found=found)
