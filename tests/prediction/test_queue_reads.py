"""A start reads the units of a queue once: later steps use what recovery found, with the same result as reading again."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqstore.formats import consumequeue
from rmqstore.formats.naming import offset_to_file_name
from rmqstore.prediction.changes import Changes
from rmqstore.prediction.log import mappedfiles
from rmqstore.prediction.queues.consumequeue import ConsumeQueue
from rmqstore.prediction.simulation import simulate
from rmqstore.store.root import Store
from rmqstore.versions import PROFILES, Profile
from tests.support.stores import sample_store

UNITS = 80  # of a file, more than the first read
Units = list[list[tuple[int, int]]]
UNIT = st.tuples(st.integers(-2, 400), st.integers(-1, 2))
RISING = st.lists(st.integers(0, 400), min_size=1, max_size=UNITS - 3).map(lambda offsets: [(offset, 1) for offset in sorted(offsets)])
FILE = st.one_of(RISING, st.lists(UNIT, max_size=UNITS), st.builds(list.__add__, RISING, st.lists(UNIT, max_size=3)))


def state(queue: ConsumeQueue) -> object:
    files = [(file.start, file.wrote) for file in queue.files.files]
    return queue.max_physic_offset, queue.min_logic_offset, queue.max_offset, files


@settings(max_examples=300)
@given(st.lists(FILE, max_size=3), st.integers(0, 500), st.integers(0, 400), st.sampled_from(PROFILES), st.sampled_from([0, 0, 20]))
def test_steps_after_recovery_find_what_reading_again_finds(
    files: list[list[tuple[int, int]]], cut: int, begin: int, profile: Profile, shift: int
) -> None:
    results = []
    with TemporaryDirectory() as directory:
        for number, units in enumerate(files):
            data = b"".join(consumequeue.UNIT.build({"physical_offset": offset, "size": size, "tags_code": 0}) for offset, size in units)
            path = Path(directory, offset_to_file_name(number * UNITS * consumequeue.UNIT_SIZE + shift))
            path.write_bytes(data.ljust(UNITS * consumequeue.UNIT_SIZE, b"\0"))
        for forgets in (False, True):
            queue = ConsumeQueue("A", 0, directory, UNITS * consumequeue.UNIT_SIZE, None, Changes(), know_ends=profile.queues_know_ends)
            queue.load(profile)
            queue.recover()
            for step in (lambda queue=queue: queue.truncate(cut), lambda queue=queue: queue.correct_min_offset(begin, profile)):
                with patch.object(ConsumeQueue, "_known", return_value=None) if forgets else nullcontext():
                    try:
                        step()
                    except Exception as stopped:
                        results.append(str(stopped))
                results.append(state(queue))
    assert results[: len(results) // 2] == results[len(results) // 2 :]


def test_the_only_file_of_a_queue_is_read_once_by_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(sample_store("5.5.1-plain"))
    reads: dict[str, int] = {}
    disk = mappedfiles.SimulatedFile._old

    def counted(file: mappedfiles.SimulatedFile, position: int, length: int) -> bytes:
        reads[file.location] = reads.get(file.location, 0) + 1
        return disk(file, position, length)

    monkeypatch.setattr(mappedfiles.SimulatedFile, "_old", counted)
    assert simulate(store, "5.5.1", counts_lost=False).starts
    queues = [str(queue.files.files[0].location) for queue in store.queue_directories() if len(queue.files.files) == 1]
    assert len(queues) > 3
    assert {reads[location] for location in queues} == {1}
