"""Every damage of the table, recovered: nothing is wrong afterwards, and only messages whose own bytes were damaged are lost.

By default every third damage is tried on one of the sample stores, and some on all; RMQSTORE_ALL_DAMAGES=1 tries every damage on all.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import pytest

from rmqstore.errors import RefusedError
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.message import RECORD_PREFIX
from rmqstore.prediction.outcome import Outcome
from tests.repair.recovering import Damaged, damaged, messages_of, view_of
from tests.support import stores
from tests.support.cli import rmqstore
from tests.support.damages import DAMAGES

BASES = ["4.9.8-plain", "4.9.8-plain-crash", "5.1.4-plain-crash", "5.2.0-plain", "5.3.3-plain", "5.3.3-plain-crash", "5.4.0-plain"]
BASES += ["5.5.1-plain", "5.5.1-plain-crash"]
EVERYTHING = os.environ.get("RMQSTORE_ALL_DAMAGES") == "1"
WITHOUT_LOG = {"log-emptied", "log-dir-removed", "log-emptied+checkpoint-missing"}
# Each is alone in its kind.
ALWAYS = {
    "body-flip-zero",
    "body-flip-lastrec",
    "field-queueid-mid",
    "physicaloffset-far",
    "topic-slash",
    "zero-4k-mid",
    "garbage-file-mid",
}
ALWAYS |= {
    "torn-tail-half",
    "stale-tail-run",
    "blank-zero",
    "file-missing-middle",
    "file-missing-last",
    "file-middle-empty",
    "file-last-short",
}
ALWAYS |= {"file-middle-long", "file-last-is-copy", "file-subdir", "checkpoint-directory", "abort-is-directory", "index-numeric-dir"}
# Files that every start writes: marks, positions of services, and the header of an index file that has no items yet.
TOUCHED = {"lock", "checkpoint", "compaction/", "config/", "index/20990101000000000"}


def _pairs() -> list[tuple[str, str]]:
    """(damage, base) that are tried."""
    names = [name for name in DAMAGES if name not in WITHOUT_LOG]
    if EVERYTHING:
        return [(name, base) for name in names for base in BASES]
    return [(name, BASES[number // 3 % len(BASES)]) for number, name in enumerate(names) if number % 3 == 0 or name in ALWAYS]


@pytest.mark.limited(30)
@pytest.mark.sampled(12)
@pytest.mark.parametrize(("damage", "base"), _pairs())
def test_a_recovered_store_is_sound_and_keeps_what_was_not_damaged(damage: str, base: str, tmp_path: Path) -> None:
    if damage != "none" and not DAMAGES[damage](view_of(base)):
        pytest.skip("there is no place for this damage in the store")
    store = damaged(base, damage, tmp_path)
    log = store.log()
    before = {message.position: log(message.position, len(message.data)) for message in messages_of(base)}

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    lost = {message.physical_offset for message in result.plan.lost}
    first, log = store.open().commitlog.min_offset, store.log()
    for message in messages_of(base):
        harmed = before[message.position] != message.data
        now = log(message.position, len(message.data))
        served = store.unit(message.place) == (message.position, len(message.data)) and now in (message.data, before[message.position])
        assert served or (harmed and (message.position in lost or message.position < first)), message.place
        assert not (message.position in lost and (served or not harmed)), message.place
    changes_nothing(store.predict(), lost)


def changes_nothing(outcome: Outcome, lost: Collection[int | None] = ()) -> None:
    """A start that succeeds and finds nothing to do.

    4.x dispatches behind what the queues have, and so the filler of a last record that is `lost`, of which no dispatcher makes anything.
    """
    assert outcome.starts is True, outcome.blockers or outcome.unknown
    assert outcome.lost is not None
    assert outcome.lost.messages == 0
    assert outcome.dispatched_in_load is not None
    assert outcome.dispatched_after_start is not None
    assert outcome.dispatched_in_load.count == 0
    assert outcome.dispatched_after_start.count == 0 or outcome.dispatched_after_start.first in lost
    assert [path for path in outcome.changes if not path.startswith(tuple(TOUCHED))] == []


@pytest.mark.parametrize("damage", sorted(WITHOUT_LOG))
def test_without_a_log_nothing_is_changed(damage: str, tmp_path: Path) -> None:
    store = damaged("5.3.3-plain", damage, tmp_path)
    with pytest.raises(RefusedError, match="no commit log file"):
        store.recover()


@pytest.mark.parametrize("command", ["recover", "truncate", "rebuild-consumequeue", "rebuild-index", "rebuild-checkpoint"])
@pytest.mark.parametrize("files", [1, 9])
def test_by_a_log_without_a_record_nothing_is_repaired(command: str, files: int, tmp_path: Path) -> None:
    root = stores.fresh_store("5.3.3-plain", tmp_path)
    for number, path in enumerate(sorted((root / "commitlog").iterdir())):
        path.write_bytes(os.urandom(path.stat().st_size) if number < files else bytes(path.stat().st_size))
    before = stores.content(root)

    done = rmqstore(command, root, "--yes", *stores.case("5.3.3-plain").set_options(root))

    assert (done.status, "RMQ-CL-NORECORD" in done.err) == (3, True)
    assert stores.content(root) == before


@pytest.mark.parametrize(("base", "release"), [("5.3.3-plain", "5.5.1"), ("4.9.8-plain", "5.5.1"), ("5.5.1-plain", "4.9.8")])
def test_one_run_is_enough_for_another_release_than_the_writer(base: str, release: str, tmp_path: Path) -> None:
    """Releases from 5.4.0 on index tags: the keys of a record may lie in a file with its tag and in one without."""
    store = Damaged(base, stores.fresh_store(base, tmp_path))
    first = store.open().commitlog.files[0].path
    first.write_bytes(bytes(4096) + first.read_bytes()[4096:])

    result = store.recover(release=release)

    assert (result.errors, result.left) == ({}, 0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("base", ["5.3.3-plain", "5.5.1-ipv6", "4.9.8-compressed", "4.9.8-schedule", "5.1.4-batchcq"])
def test_a_sysflag_of_ones_is_put_right_in_one_run(base: str, tmp_path: Path) -> None:
    store = Damaged(base, stores.fresh_store(base, tmp_path))
    messages = messages_of(base)
    message = messages[len(messages) // 2]
    file = store.open().commitlog.find(message.position)
    assert file is not None
    with file.path.open("r+b") as stream:
        stream.seek(message.position - file.start + fixed_layout(RECORD_PREFIX)["sys_flag"].offset)
        stream.write(b"\xff" * 4)

    result = store.recover()

    assert (result.errors, result.left, result.plan.lost) == ({}, 0, ())
    assert store.log_bytes(message.position, len(message.data)) == message.data
