"""States that the log, queues and index that a start reads do not show, on the store of a whole broker."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmqstore.doctor.areas import Area, State
from rmqstore.doctor.diagnosis import Diagnosis, diagnose
from rmqstore.doctor.nextsteps import Commands
from rmqstore.doctor.verdict import Class
from rmqstore.findings import Severity
from rmqstore.formats.batchconsumequeue import UNIT
from rmqstore.formats.layout import fixed_layout
from rmqstore.store.root import Store
from tests.doctor.diagnosing import FreshStore, diagnosis_of
from tests.doctor.test_observed_starts import OBSERVED, SETTINGS
from tests.prediction.recorded_cases import cases_of
from tests.support import sparse
from tests.support.cli import needs_permissions, rmqstore, without_privileges
from tests.support.damages import DAMAGES, apply
from tests.support.stores import case
from tests.support.storeview import StoreView
from tests.verify.one_check import patch

PLAIN = "5.3.3-plain"


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("broker")
    sparse.unpack(OBSERVED / "broker-5.3.3-clean.tar.xz", directory)
    return directory / "store"


def triage(root: Path, release: str = "5.3.3", **settings: str) -> Diagnosis:
    return diagnose(Store.open(root, settings={**SETTINGS, **settings}), release, Commands(root))


def area(found: Diagnosis, wanted: Area) -> tuple[State, int | None]:
    return next((one.state, one.count) for one in found.verdict.areas if one.area is wanted)


def remove(*names: str) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        for name in names:
            shutil.rmtree(root / name)

    return damage


def noise(name: str) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        path = root / name
        path.write_bytes(b"\xa5" * path.stat().st_size)

    return damage


def zeros(name: str) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        with (root / name).open("r+b") as file:
            file.write(bytes(4096))

    return damage


COMPACTED = "compact/0/00000000000000000000"
CASES: list[tuple[str, Callable[[Path], None], str, Area, int | None]] = [
    (
        "a queue directory",
        remove("consumequeue/orders/1"),
        "STARTS, BUT 157 messages of orders/1 become invisible",
        Area.QUEUES,
        157,
    ),
    ("the index", remove("index"), "STARTS, BUT queries by key miss 3715 messages, which no index file covers", Area.INDEX, 3715),
    ("the volume of the log", remove("commitlog"), "STARTS, BUT it deletes every queue (67)", Area.QUEUES, 67),
    (
        "the configuration",
        remove("config"),
        "DOES NOT START: config/topics.json: it is missing, and there are batch queues",
        Area.TOPICS,
        None,
    ),
    ("the compaction store", remove("compaction"), "STARTS, BUT 250 messages of 2 queues cannot be consumed", Area.OTHER, 250),
    (
        "the contents of a compacted log",
        noise("compaction/compactionLog/compact/0/00000000000000000000"),
        "STARTS, BUT 1 file of compacted logs hold no messages",
        Area.OTHER,
        1,
    ),
    (
        "the begin of a compacted log",
        zeros(f"compaction/compactionLog/{COMPACTED}"),
        f"STARTS, BUT 1 file of compacted logs hold no messages: compaction/compactionLog/{COMPACTED}",
        Area.OTHER,
        1,
    ),
    (
        "the begin of the queue of a compacted log",
        zeros(f"compaction/compactionCq/{COMPACTED}"),
        f"STARTS, BUT 1 queue file of compacted logs have no entries: compaction/compactionCq/{COMPACTED}",
        Area.OTHER,
        1,
    ),
    (  # of a fourth message only the properties are overwritten, which the message in the commit log shows
        "bytes in the middle of a compacted log",
        lambda root: patch(root / "compaction" / "compactionLog" / COMPACTED, 10_000, b"\xa5" * 1000),
        "STARTS, BUT 4 messages of compact/0 are damaged in the compacted log",
        Area.OTHER,
        4,
    ),
    (
        "an entry of a compacted queue",
        lambda root: patch(root / "compaction" / "compactionCq" / COMPACTED, 460, bytes(46)),
        "STARTS, BUT 1 message of compact/0 is missing in the compacted queue",
        Area.OTHER,
        1,
    ),
    (
        "a file in the middle of the log",
        lambda root: (root / "commitlog" / "00000000000001048576").unlink(),
        "STARTS, BUT commit log file 00000000000002097152: 1048576 bytes are missing after 00000000000000000000",
        Area.COMMIT_LOG,
        None,
    ),
]


@pytest.mark.parametrize(("what", "damage", "headline", "harmed", "count"), CASES, ids=[one[0] for one in CASES])
def test_what_is_gone(
    what: str, damage: Callable[[Path], None], headline: str, harmed: Area, count: int | None, clean: Path, tmp_path: Path
) -> None:
    root = sparse.copy_tree(clean, tmp_path / "store")
    damage(root)
    found = triage(root)
    assert found.verdict.headline.startswith(headline), found.verdict.headline
    state, counted = area(found, harmed)
    assert state is not State.OK
    assert count is None or counted == count


def test_a_queue_whose_last_messages_alone_come_back(tmp_path: Path) -> None:
    """The start dispatches the records after the end of all other queues, and fills the file before them with units of no message."""
    sparse.unpack(OBSERVED / "broker-4.9.7-clean.tar.xz", tmp_path)
    root = tmp_path / "store"
    path = root / "consumequeue" / "RMQ_SYS_TRANS_HALF_TOPIC" / "0" / "00000000000000000000"
    good = path.read_bytes()
    path.unlink()
    found = triage(root, "4.9.7")
    after = found.outcome.after_start
    assert after is not None
    assert after.queues is not None
    queue = after.queues["RMQ_SYS_TRANS_HALF_TOPIC/0"]
    assert (queue.min_offset, queue.max_offset, queue.filled_until) == (0, 70, 62)
    lost = "STARTS, BUT 62 messages of RMQ_SYS_TRANS_HALF_TOPIC/0 become invisible"
    assert found.verdict.headline.startswith(lost), found.verdict.headline
    # As this start leaves it for the next one.
    path.write_bytes(struct.pack(">qiq", 0, 0x7FFFFFFF, 0) * 62 + good[62 * 20 :])
    assert triage(root, "4.9.7").verdict.headline.startswith(lost)


def test_a_topic_cut_out_of_the_configuration(clean: Path, tmp_path: Path) -> None:
    root = sparse.copy_tree(clean, tmp_path / "store")
    path = root / "config" / "topics.json"
    table = json.loads(path.read_text())
    del table["topicConfigTable"]["orders"]
    path.write_text(json.dumps(table))
    found = triage(root)
    assert found.verdict.headline.startswith("STARTS, BUT 630 messages of orders cannot be consumed"), found.verdict.headline


@pytest.mark.parametrize(
    ("gone", "filters"),
    [(["orders/1"], "--queue orders/1"), (["orders/0", "orders/1"], "--topic orders"), (["orders/0", "delay/0"], "")],
)
def test_one_step_for_all_queues_that_are_gone(gone: list[str], filters: str, clean: Path, tmp_path: Path) -> None:
    root = sparse.copy_tree(clean, tmp_path / "store")
    remove(*(f"consumequeue/{name}" for name in gone))(root)
    assert triage(root).next == f"rmqstore rebuild-consumequeue {root} {filters}".rstrip()


def test_without_delayed_messages_the_configuration_of_4_is_missed_too(tmp_path: Path, fresh_store: FreshStore) -> None:
    """4.9 has no timer files, which would show that a broker wrote it, but its message store always writes delayOffset.json."""
    sparse.unpack(OBSERVED / "broker-4.9.7-clean.tar.xz", tmp_path)
    root = tmp_path / "store"
    remove("config", "consumequeue/SCHEDULE_TOPIC_XXXX")(root)
    for crashed in (False, True):
        found = triage(root, "4.9.7")
        assert found.verdict.headline.startswith("STARTS, BUT "), found.verdict.headline
        lost = {one.file for one in found.findings if one.code == "RMQ-CF-LOST"}
        assert {"config/topics.json", "config/consumerOffset.json"} <= lost
        assert area(found, Area.PROGRESS)[0] is area(found, Area.TOPICS)[0] is State.LOSES
        assert "configuration" not in {one.name for one in found.assumed}
        if not crashed:  # an hour after its start
            (root / "abort").touch()
            started = (root / "checkpoint").stat().st_mtime - 3600
            os.utime(root / "abort", (started, started))
    alone = fresh_store("4.9.8-plain")
    assert diagnosis_of(alone, "4.9.8-plain").verdict.cls is Class.NOTHING_LOST
    remove("config")(alone)
    assert diagnosis_of(alone, "4.9.8-plain").verdict.cls is Class.STARTS_BUT


@pytest.mark.parametrize(
    ("name", "where", "says"),
    [
        ("config/topicQueueMapping.json", Area.TOPICS, "static topics are served as plain ones"),
        ("config/messageRequestMode.json", Area.TOPICS, "the modes of consumer groups, POP or PULL, are lost"),
        ("timerwheel", Area.DELAYED, "124 timed messages never delivered: the wheel is damaged"),
    ],
)
def test_parts_with_other_bytes_lose_what_they_held(name: str, where: Area, says: str, fresh_store: FreshStore) -> None:
    """Static topics: fact sheet timer observed §1; the timer reads the end of its log only, so a wheel of noise lacks older entries."""
    root = fresh_store("broker-5.5.1-crash")
    noise(name)(root)
    (root / f"{name}.bak").unlink(missing_ok=True)
    found = diagnosis_of(root, "broker-5.5.1-crash")
    assert found.verdict.headline.startswith(f"STARTS, BUT {says}"), found.verdict.headline
    assert area(found, where)[0] is State.LOSES


def test_a_page_of_zeros_in_the_wheel_loses_its_messages(fresh_store: FreshStore) -> None:
    root = fresh_store("broker-5.5.1-crash")
    wheel = bytearray((root / "timerwheel").read_bytes())
    used = [place for place in range(0, len(wheel), 4096) if any(wheel[place : place + 4096])]
    harmed = []
    for page in used[::3]:
        (root / "timerwheel").write_bytes(wheel[:page] + bytes(4096) + wheel[page + 4096 :])
        found = diagnosis_of(root, "broker-5.5.1-crash")
        lacking = [
            entry for entry in rmqstore("verify", root, "--part", "timer", "--format", "json").objects if "the wheel lacks" in str(entry)
        ]
        assert (area(found, Area.DELAYED)[0] is State.LOSES) == bool(lacking)
        harmed += lacking
    assert harmed


@pytest.mark.parametrize(
    "field", ["physical_offset", "size", "tags_code", "store_time", "msg_base_offset", "batch_size", "compacted_offset"]
)
def test_a_batch_entry_that_differs_from_its_message(field: str, fresh_store: FreshStore) -> None:
    root = fresh_store("broker-5.5.1-crash")
    path = root / "batchconsumequeue" / "bcq" / "0" / f"{0:020d}"
    place = fixed_layout(UNIT)[field]
    position = UNIT.sizeof() + place.offset + place.width - 1
    with path.open("r+b") as stream:
        stream.seek(position)
        (old,) = stream.read(1)
        stream.seek(position)
        stream.write(bytes([old ^ 1]))
    verdict = diagnosis_of(root, "broker-5.5.1-crash").verdict
    assert verdict.cls is Class.STARTS_BUT
    assert verdict.effects[0].text in ("1 entry of bcq/0 does not match its message", "2 entries of bcq/0 do not match their messages")


def test_a_message_that_a_client_sent_shows_that_there_was_a_configuration(clean: Path, tmp_path: Path) -> None:
    """With timerWheelEnable=false a broker of 5.x has no timer files."""
    root = sparse.copy_tree(clean, tmp_path / "store")
    remove("config", "timerlog", "batchconsumequeue")(root)
    (root / "timerwheel").unlink()
    found = triage(root, timerWheelEnable="false")
    assert found.verdict.headline.startswith("STARTS, BUT 3085 messages of 24 topics cannot be consumed"), found.verdict.headline
    assert area(found, Area.PROGRESS)[0] is State.LOSES


def test_a_young_crash_without_configuration_says_so(fresh_store: FreshStore) -> None:
    """Killed before it wrote delayOffset.json, so nothing shows that a broker, not a message store alone, wrote it."""
    found = diagnosis_of(fresh_store("4.9.8-schedule-crash"), "4.9.8-schedule-crash")
    assert next(one.value for one in found.assumed if one.name == "configuration") == "none"
    assert next(one.reason for one in found.verdict.areas if one.area is Area.TOPICS).startswith("there is no configuration")


@pytest.mark.parametrize("base", ["4.9.8-plain", PLAIN])
def test_parts_of_a_store_alone_do_not_show_what_is_lost(base: str, fresh_store: FreshStore) -> None:
    root = fresh_store(base)
    for name in ("lock", "checkpoint", "abort.bak"):
        (root / name).unlink(missing_ok=True)
    shutil.rmtree(root / "config", ignore_errors=True)
    found = diagnosis_of(root, base)
    assert found.verdict.headline.startswith("NOT SURE: config/, checkpoint and lock are missing"), found.verdict.headline
    assert {one.area for one in found.verdict.areas if one.state is not State.OK} == {Area.TOPICS}


def test_an_offset_below_the_begin_of_its_queue_is_a_note(fresh_store: FreshStore) -> None:
    base = "5.3.3-headless-crash"
    root = fresh_store(base)
    queue = next(name for name, one in diagnosis_of(root, base).outcome.after_load.queues.items() if one.min_offset > 0)  # type: ignore[union-attr]
    topic, _, number = queue.rpartition("/")
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": {f"{topic}@group": {number: 0}}}))
    progress = next(one for one in diagnosis_of(root, base).verdict.areas if one.area is Area.PROGRESS)
    assert progress.state is State.OK
    assert "have expired" in progress.reason


# Settings


def test_what_was_assumed(clean: Path) -> None:
    found = diagnose(Store.open(clean), "auto", Commands(clean))
    assumed = {one.name: (one.value, one.source) for one in found.assumed}
    assert assumed["mappedFileSizeCommitLog"] == (
        1048576,
        "the files; default 1073741824: with the default this broker would not start",
    )
    assert assumed["broker version"][0] == found.release
    assert assumed["messageIndexEnable"] == (True, "the broker's default")
    stated = {one.name for one in triage(clean).assumed}
    assert not stated & {"mappedFileSizeCommitLog", "maxIndexNum", "broker version"}


@pytest.mark.parametrize(("key", "wrong"), [("mappedFileSizeCommitLog", "1073741824"), ("mappedFileSizeConsumeQueue", "6000000")])
def test_a_broker_with_other_sizes(key: str, wrong: str, fresh_store: FreshStore, tmp_path: Path) -> None:
    root = fresh_store(PLAIN)
    right = case(PLAIN).settings(root)[key]
    by_option = rmqstore("doctor", root, "--set", f"{key}={wrong}", "--format", "json").objects[-1]
    assert by_option["class"] == "DOES NOT START"
    assert by_option["next"] == f"rmqstore doctor {root} --set {key}={right}"
    conf = tmp_path / "broker.conf"
    conf.write_text(f"{key}={wrong}\n")
    by_file = rmqstore("doctor", root, "--broker-conf", conf, "--format", "json").objects[-1]
    assert by_file["next"] == f"echo {key}={right} >> {conf}"
    subprocess.run(by_file["next"], shell=True, check=True)
    assert rmqstore("doctor", root, "--broker-conf", conf, "--format", "json").objects[-1]["class"] == "STARTS, NOTHING LOST"


SIZES = {
    "maxHashSlotNum": "5000000",
    "maxIndexNum": "20000000",
    "compactionMappedFileSize": "104857600",
    "compactionCqMappedFileSize": "10485760",
    "mappedFileSizeTimerLog": "104857600",
    "mapperFileSizeBatchConsumeQueue": "13800000",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("keys", [*([key] for key in SIZES), list(SIZES)], ids="-".join)
def test_the_next_step_of_other_sizes_ends_in_a_start(keys: list[str], clean: Path, tmp_path: Path) -> None:
    """Each step is the line that changes one setting; together they lead to a broker that starts."""
    conf = tmp_path / "broker.conf"
    conf.write_text("".join(f"{key}={SIZES[key]}\n" for key in keys))
    steps: list[str] = []
    while True:
        last = rmqstore("doctor", clean, "--broker-conf", conf, "--broker-version", "5.3.3", "--format", "json").objects[-1]
        if last["class"] == "STARTS, NOTHING LOST":
            break
        assert last["next"].startswith("echo "), last["headline"]
        assert last["next"] not in steps
        steps.append(last["next"])
        subprocess.run(last["next"], shell=True, check=True)
    assert last["next"] == "Start the broker."
    assert len(steps) >= len(keys)


def several_volumes(clean: Path, target: Path) -> tuple[Path, Path, Path]:
    """A store whose log is in two directories, of which the second has the end."""
    root = sparse.copy_tree(clean, target / "store")
    first, second = target / "volume1", target / "volume2"
    (root / "commitlog").rename(first)
    second.mkdir()
    last = max(first.iterdir())
    last.rename(second / last.name)
    return root, first, second


@pytest.mark.parametrize("mounted", ["missing", "empty"])
def test_a_volume_that_is_not_mounted(mounted: str, clean: Path, tmp_path: Path) -> None:
    root, first, second = several_volumes(clean, tmp_path)
    paths = f"{first},{second}"
    assert triage(root, storePathCommitLog=paths).verdict.cls is Class.NOTHING_LOST
    shutil.rmtree(second)
    if mounted == "empty":
        second.mkdir()
    found = triage(root, storePathCommitLog=paths)
    assert found.verdict.headline.startswith("STARTS, BUT a directory of the log is empty or missing, is its volume mounted?")
    assert found.next.startswith("rmqstore info")  # nothing that writes


def test_a_log_that_does_not_begin_at_zero_says_so(clean: Path, tmp_path: Path) -> None:
    """No queue and no index has a whole file for removed messages, so nothing tells a removal by hand from a full disk."""
    root = sparse.copy_tree(clean, tmp_path / "store")
    (root / "commitlog" / "00000000000000000000").unlink()
    reason = note_of(triage(root))
    assert reason.startswith(
        "the log begins at offset 1048576: the files before it are missing and were younger than fileReservedTime (72 hours)"
    )
    assert "nothing here shows whether it did" in reason
    assert "(1 hour)" in note_of(triage(root, fileReservedTime="1"))
    old = note_of(triage(root, fileReservedTime="0"))
    assert old == (
        "the log begins at offset 1048576: the files before it have expired or are missing, and nothing here shows which; "
        "bytes 1048576 to 3145728 were not verified; `rmqstore verify` reads them"
    )


@pytest.mark.parametrize(
    ("base", "words"), [("4.9.8-headless", "as after a broker removed files"), ("5.3.3-headless-crash", "almost full")]
)
def test_the_begin_of_a_log_that_the_cleaner_of_the_store_left(base: str, words: str, fresh_store: FreshStore) -> None:
    found = diagnosis_of(fresh_store(base), base)
    assert words in note_of(found)
    assert "RMQ-CL-REMOVED" not in {one.code for one in found.findings}


def note_of(found: Diagnosis) -> str:
    return next(one.reason for one in found.verdict.areas if one.area is Area.COMMIT_LOG)


@pytest.mark.parametrize(("base", "count"), [("4.9.8-plain", 109), ("5.3.3-plain", 108), ("5.3.3-plain-crash", 108), ("5.5.1-plain", 108)])
def test_a_first_log_file_that_was_removed(base: str, count: int, fresh_store: FreshStore) -> None:
    """Queue files for its messages alone are there, which a broker removes together with a file that expires."""
    root = fresh_store(base)
    gone = root / "commitlog" / "00000000000000000000"
    assert count == sum(one["physicalOffset"] < gone.stat().st_size for one in _in_queues(base))
    gone.unlink()
    found = diagnosis_of(root, base)
    assert found.verdict.headline.startswith(f"STARTS, BUT up to {count} messages are gone: log files before offset 65536 were removed")
    assert found.next.startswith(f"rmqstore recover {root}")


def test_of_removed_messages_those_count_that_a_group_has_not_read(fresh_store: FreshStore) -> None:
    root = fresh_store(PLAIN)
    (root / "commitlog" / "00000000000000000000").unlink()
    ends = diagnosis_of(root, PLAIN).outcome.after_load.queues
    assert ends is not None
    offsets: dict[str, dict[str, int]] = {}
    for name, state in ends.items():
        topic, _, number = name.rpartition("/")
        offsets.setdefault(f"{topic}@group", {})[number] = state.max_offset
    (root / "config").mkdir(exist_ok=True)
    path = root / "config" / "consumerOffset.json"
    path.write_text(json.dumps({"offsetTable": offsets}))
    assert "RMQ-CL-REMOVED" not in {one.code for one in diagnosis_of(root, PLAIN).findings}
    first = next(iter(offsets))
    offsets[first]["0"] = 1
    path.write_text(json.dumps({"offsetTable": offsets}))
    (removed,) = (one for one in diagnosis_of(root, PLAIN).findings if one.code == "RMQ-CL-REMOVED")
    assert "messages that consumers have not read are gone" in removed.message


def test_a_first_log_file_that_may_have_expired(fresh_store: FreshStore) -> None:
    """A queue has lost its first file as well, as after a broker removed both."""
    root = fresh_store(PLAIN)
    (root / "commitlog" / "00000000000000000000").unlink()
    next(path for path in sorted((root / "consumequeue").glob("*/*/0*0")) if len(list(path.parent.iterdir())) > 1).unlink()
    assert "RMQ-CL-REMOVED" not in {one.code for one in diagnosis_of(root, PLAIN).findings}


def _in_queues(base: str) -> list[dict[str, Any]]:
    """The messages that producers were told of and that are in queues of files: no prepared and no rolled back ones."""
    return [one for one in case(base).truth() if not one["sysFlag"] & 4 or one["sysFlag"] & 12 == 8]


# Rights and foreign objects


def as_an_ordinary_user(root: Path) -> dict[str, Any]:
    """The last object of `doctor` in a process where file permissions count."""
    done = without_privileges("doctor", root, *case(PLAIN).set_options(root), "--broker-version", "5.3.3", "--format", "json", "--quiet")
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 1, done.stderr
    last: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return last


@pytest.mark.sampled(3)
@needs_permissions
@pytest.mark.parametrize(
    ("name", "right", "areas"),
    [
        ("commitlog/00000000000000065536", "u+rw", {"commit log", "queues", "index"}),
        ("commitlog", "u+rwx", {"commit log", "queues", "index"}),
        ("checkpoint", "u+rw", {"commit log", "queues", "index"}),
        ("consumequeue/Orders/1", "u+rwx", {"queues", "consumer progress"}),
        ("consumequeue/Orders", "u+rwx", {"queues", "consumer progress"}),
        ("index", "u+rwx", {"index"}),
        ("index/2*", "u+rw", {"index"}),
        ("lock", "u+rw", set()),
    ],
)
def test_what_may_not_be_read(name: str, right: str, areas: set[str], fresh_store: FreshStore) -> None:
    root = fresh_store(PLAIN)
    path = next((root / name).parent.glob(Path(name).name))
    path.chmod(0)
    last = as_an_ordinary_user(root)
    assert (last["class"], last["next"]) == ("NOT SURE", f"chmod {right} {path}")
    assert {one["area"] for one in last["not_checked"]} == areas | {"machine"}
    assert [one for one in last["not_checked"] if one["reason"].count("could not be read") > 1] == []  # nothing is said twice


@pytest.mark.limited(4)
@pytest.mark.sampled(3)
@needs_permissions
@pytest.mark.parametrize(
    ("name", "right", "areas"),
    [
        ("config", "u+rwx", {"queues", "consumer progress", "delayed and timed messages", "transactions", "topics and groups"}),
        ("config/topics.json", "u+rw", {"queues", "topics and groups"}),
        ("config/consumerOffset.json", "u+rw", {"consumer progress", "transactions"}),
        ("config/delayOffset.json", "u+rw", {"delayed and timed messages"}),
        ("timerwheel", "u+rw", {"delayed and timed messages"}),
        ("timerlog", "u+rwx", {"delayed and timed messages"}),
        ("compaction", "u+rwx", {"other parts"}),
        ("batchconsumequeue", "u+rwx", {"queues", "consumer progress"}),
        ("consumequeue/SCHEDULE_TOPIC_XXXX", "u+rwx", {"queues", "delayed and timed messages"}),
    ],
)
def test_what_may_not_be_read_of_a_whole_broker(name: str, right: str, areas: set[str], clean: Path, tmp_path: Path) -> None:
    root = sparse.copy_tree(clean, tmp_path / "store")
    (root / name).chmod(0)
    words = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    done = without_privileges("doctor", root, *words, "--broker-version", "5.3.3", "--format", "json", "--quiet")
    last = json.loads(done.stdout.splitlines()[-1])
    (root / name).chmod(0o755)
    assert (last["class"], last["next"]) == ("NOT SURE", f"chmod {right} {root / name}")
    assert {one["area"] for one in last["not_checked"]} == areas | {"machine"}


@needs_permissions
def test_a_file_that_no_broker_knows_may_be_unreadable(fresh_store: FreshStore) -> None:
    root = fresh_store(PLAIN)
    (root / "notes.txt").touch(0)
    done = without_privileges("doctor", root, *case(PLAIN).set_options(root), "--broker-version", "5.3.3", "--format", "json", "--quiet")
    assert json.loads(done.stdout.splitlines()[-1])["class"] == "STARTS, NOTHING LOST"


@needs_permissions
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file to another user")
def test_a_file_of_another_user(fresh_store: FreshStore) -> None:
    root = fresh_store(PLAIN)
    path = root / "commitlog" / "00000000000000065536"
    os.chown(path, 65534, 65534)
    path.chmod(0o600)
    last = as_an_ordinary_user(root)
    assert (last["class"], last["next"]) == ("NOT SURE", f"chown 0:0 {path}")


@pytest.mark.parametrize("place", ["commitlog/pipe", "consumequeue/pipe", "index/pipe", "config/topics.json", "checkpoint", "timerwheel"])
def test_a_pipe_ends_nothing(place: str, fresh_store: FreshStore) -> None:
    root = fresh_store(PLAIN)
    (root / place).parent.mkdir(exist_ok=True)
    (root / place).unlink(missing_ok=True)
    os.mkfifo(root / place)
    found = diagnosis_of(root, PLAIN)
    assert found.verdict.cls is not Class.NOTHING_LOST or not [one for one in found.findings if one.severity is Severity.ERROR]
    assert any(place in (one.file or "") for one in found.findings)


# The object


def test_the_json_object(clean: Path) -> None:
    last = rmqstore("doctor", clean, "--format", "json").objects[-1]
    assert (last["type"], last["schema"], last["class"]) == ("doctor", 1, "STARTS, NOTHING LOST")
    assert [sorted(one) for one in last["areas"]] == [["area", "count", "reason", "state"]] * len(Area)
    assert [sorted(one) for one in last["assumed"]] == [["name", "source", "value"]] * len(last["assumed"])
    assert (last["not_checked"], last["next"]) == ([], "Start the broker.")


def test_a_configuration_in_rocksdb_is_not_checked() -> None:
    from tests.support.stores import sample_store

    root = sample_store("broker-5.5.1-rocksdb-clean")
    run = rmqstore("doctor", root, "--format", "json")
    last = run.objects[-1]
    assert (run.status, last["headline"]) == (
        1,
        "NOT SURE: the configuration in RocksDB was not read; `rmqstore verify` reads it (+ 1 more area)",
    )
    assert [one["area"] for one in last["not_checked"]] == ["consumer progress", "topics and groups"]


@pytest.mark.parametrize(
    ("damage", "headline"),
    [
        ("cq-all-tails-zero-3", "STARTS, BUT 45 messages of 18 queues become invisible"),
        ("cq-last-file-zeroed", "STARTS, BUT 12 messages of %RETRY%group_x/0 become invisible"),
        ("cq-tail-zero-5", "STARTS, BUT 5 messages of Orders/1 become invisible"),
        ("cq-extra-zero-file", "STARTS, NOTHING LOST"),
    ],
)
def test_messages_without_entries_are_counted_once(damage: str, headline: str, fresh_store: FreshStore) -> None:
    """Not the units of files of zeros, which are no messages."""
    served = [
        sum(queue[1] for queue in (one["S1"] | (one.get("S2") or {}))["queues"].values())
        for name in ("none", damage)
        for one in cases_of("5.3.3")
        if (one["base"], one["damage"], one["abort"]) == ("5.3.3-plain", name, "no")
    ]
    assert served[0] - served[1] == sum(map(int, re.findall(r"(\d+) messages", headline)))  # what the broker did
    root = fresh_store("5.3.3-plain")
    apply(DAMAGES[damage](StoreView(root, case("5.3.3-plain").settings(root))), root)
    assert diagnosis_of(root, "5.3.3-plain").verdict.headline == headline
