"""Extended entries that no entry of the queue names, as a cut of the queue leaves them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqstore.formats.consumequeue import UNIT_SIZE
from rmqstore.store.ends import queue_ends
from rmqstore.store.root import Store
from tests.support.cli import rmqstore
from tests.support.stores import case, fresh_store, sample_store
from tests.verify.one_check import patch

NAME = "5.3.3-cqext"
CUT = 3


@pytest.mark.parametrize("name", ["5.3.3-cqext", "4.9.8-cqext", "broker-5.3.3-cqext-crash"])
def test_stores_of_brokers_have_none(name: str) -> None:
    root = sample_store(name)
    run = rmqstore("verify", root, "--part", "consumequeue", *case(name).set_options(root), "--format", "json")
    assert "RMQ-CQ-EXT-ORPHAN" not in run.out


def test_entries_that_were_cut_leave_them(tmp_path: Path) -> None:
    root = fresh_store(NAME, tmp_path)
    store = Store.open(root, settings=case(NAME).settings(root))
    exts = {(queue.topic, queue.queue_id) for queue in store.ext_queue_directories() if queue.files.files}
    queues = [one for one in store.queue_directories() if (one.topic, one.queue_id) in exts]
    queue = max(queues, key=lambda one: queue_ends(one.files).max_offset)
    end = queue_ends(queue.files).max_offset
    assert end > CUT
    for number in range(end - CUT, end):
        file = queue.files.find(number * UNIT_SIZE)
        assert file is not None
        patch(file.path, number * UNIT_SIZE - file.start, bytes(UNIT_SIZE))

    run = rmqstore("verify", root, "--part", "consumequeue", *case(NAME).set_options(root), "--format", "json")

    [orphan] = [one for one in run.objects if one.get("code") == "RMQ-CQ-EXT-ORPHAN"]
    assert (orphan["topic"], orphan["queue_id"], orphan["found"], orphan["severity"]) == (queue.topic, queue.queue_id, CUT, "info")
