"""A queue that takes messages in one piece ends as if it had taken them one by one."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rmqstore.recovery.changes import Changes
from rmqstore.recovery.consumequeue import UNIT_SIZE, ConsumeQueue
from rmqstore.recovery.messages import Messages

FILE_SIZE = 5 * UNIT_SIZE


def queue(directory: Path) -> ConsumeQueue:
    return ConsumeQueue("T", 0, directory, FILE_SIZE, None, Changes())


def state(made: ConsumeQueue) -> tuple[object, ...]:
    files = [(file.start, file.wrote, file.read(0, FILE_SIZE)) for file in made.files.files]
    return made.max_physic_offset, made.min_logic_offset, made.shifted, made.files.flushed_where, files


@st.composite
def message_lists(draw: st.DrawFn) -> list[tuple[int, int, int, int]]:
    """Messages as a log has them, mostly in order, with repeats, gaps and strange offsets between."""
    found = []
    offset, place = draw(st.integers(0, 3)) * 100, draw(st.integers(0, 12))
    for _ in range(draw(st.integers(1, 14))):
        match draw(st.sampled_from(["next"] * 6 + ["again", "gap", "zero", "far", "negative"])):
            case "again":
                offset, place = max(0, offset - 200), max(0, place - 2)
            case "gap":
                place += draw(st.integers(1, 8))
            case "zero":
                place = 0
            case "far":
                offset = 2**62
            case "negative":
                offset -= 2**40
        found.append((offset, 100, draw(st.integers(-(2**63), 2**63 - 1)), place))
        offset, place = min(offset + 100, 2**63 - 200), place + 1
    return found


@given(message_lists())
def test_all_at_once_is_one_by_one(messages: list[tuple[int, int, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        together, single = queue(Path(directory) / "a"), queue(Path(directory) / "b")
        columns = np.array([(*message, 0) for message in messages], np.int64).T
        together.put_all(Messages(*columns))
        for message in messages:
            single.put(*message)
        assert state(together) == state(single)
