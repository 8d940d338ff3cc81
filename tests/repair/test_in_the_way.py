"""What is in the way is taken out of the store, whatever it is: nothing hangs, no link is followed, and an undo puts it back as it was."""

from __future__ import annotations

import os
import shutil
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import pytest

from rmqstore.errors import RefusedError
from rmqstore.repair import procedure
from rmqstore.repair.derived.requests import Planning
from rmqstore.repair.files.copies import same_device
from rmqstore.repair.recover import Recovery
from rmqstore.store.root import Store
from tests.repair.every_action import Yes
from tests.repair.recovering import Damaged
from tests.repair.test_recover import changes_nothing
from tests.support import stores
from tests.support.cli import rmqstore

BASE = "5.3.3-plain"
QUEUE = "consumequeue/TopicA/0"
FILE = "00000000000000000000"
_SECONDS = 600

Make = Callable[[Path], None]


def named_pipe(path: Path) -> None:
    os.mkfifo(path, 0o640)


def unix_socket(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)


def device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes devices")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def dangling_link(path: Path) -> None:
    path.symlink_to("../nowhere")


def link_to_a_directory(path: Path) -> None:
    path.symlink_to(os.environ["RMQSTORE_TEST_ELSEWHERE"])


def filled_directory(path: Path) -> None:
    (path / "inner").mkdir(parents=True)
    (path / "file").write_text("kept")
    named_pipe(path / "inner" / "pipe")
    link_to_a_directory(path / "inner" / "link")


KINDS: tuple[Make, ...] = (named_pipe, unix_socket, device, link_to_itself, dangling_link, link_to_a_directory, filled_directory)
AMONG_FILES = (
    f"{QUEUE}/stray",
    f"{QUEUE}/{FILE}",
    f"{QUEUE}/{10**7:020d}",
    "index/stray",
    "index/20300101000000000",
    "commitlog/stray",
    "commitlog/00000000000000065536",
    "checkpoint",
    "abort",
    "config/timercheck",
    "config/topics.json",
    "timerlog/00000000000000000000",
    "timerwheel",
    "lock",
    "compaction/position-checkpoint",
    "compaction/position-checkpoint.bak",
)
BESIDE_QUEUES = ("consumequeue/stray", "consumequeue/TopicA/stray", "consumequeue/TopicA/-1", "consumequeue/TopicA/+1")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory outside of the store that links lead to, and that stays as it is."""
    directory = tmp_path / "elsewhere"
    directory.mkdir(0o750)
    (directory / FILE).write_text("precious")
    before = _state(directory)
    monkeypatch.setenv("RMQSTORE_TEST_ELSEWHERE", str(directory))
    yield directory
    assert _state(directory) == before
    assert stat.S_IMODE(directory.stat().st_mode) == 0o750


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _state(root: Path) -> dict[str, Any]:
    """What every entry is, without opening special files; the tool's own folder left out."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if name.parts[0] != ".rmqstore":
            status = path.lstat()
            regular = stat.S_ISREG(status.st_mode)
            content = path.read_bytes() if regular else str(path.readlink()) if path.is_symlink() else status.st_rdev
            found[str(name)] = (status.st_mode, status.st_uid, status.st_mtime_ns, content)
    return found


def _put(root: Path, place: str, make: Make) -> None:
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        for below in sorted(path.rglob("*"), reverse=True):
            below.rmdir() if below.is_dir() else below.unlink()
        path.rmdir()
    path.unlink(missing_ok=True)
    make(path)


def _recovers(store: Damaged, place: str, moved: os.stat_result) -> None:
    """Everything reports it, one recover ends it, and an undo brings it back."""
    before = _state(store.root)
    options = stores.case(BASE).set_options(store.root)
    for command in ("info", "verify", "doctor"):
        done = rmqstore(command, store.root, *options)
        assert done.status in (0, 1), done.err
    assert _state(store.root) == before

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    now = store.root / place
    assert not os.path.lexists(now) or now.lstat().st_ino != moved.st_ino
    assert result.transaction is not None
    kept = next((path for path in result.transaction.directory.rglob("*") if path.lstat().st_ino == moved.st_ino), None)
    assert kept is not None or stat.S_ISDIR(moved.st_mode)
    changes_nothing(store.predict(), {message.physical_offset for message in result.plan.lost})

    undone = procedure.undo(store.root, result.transaction.id, Yes())
    assert undone.transaction is not None
    assert _state(store.root) == before


CASES = [(place, KINDS[(number + offset) % len(KINDS)]) for number, place in enumerate(AMONG_FILES) for offset in (0, 3)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("place", "make"), CASES)
def test_what_is_among_files_is_taken_out(place: str, make: Make, tmp_path: Path) -> None:
    store = Damaged(BASE, stores.fresh_store(BASE, tmp_path))
    _put(store.root, place, make)
    _recovers(store, place, (store.root / place).lstat())


def test_a_directory_in_place_of_a_position_file_is_taken_out_with_its_content(tmp_path: Path) -> None:
    store = Damaged(BASE, stores.fresh_store(BASE, tmp_path))
    place = "compaction/position-checkpoint"
    _put(store.root, place, filled_directory)
    _recovers(store, place, (store.root / place).lstat())


@pytest.mark.parametrize(("name", "make"), [("stray", named_pipe), ("stray", dangling_link), (FILE, filled_directory)])
def test_what_is_among_the_files_of_compacted_queues_is_taken_out(name: str, make: Make, tmp_path: Path) -> None:
    store = Damaged(BASE, stores.fresh_store(BASE, tmp_path))
    place = f"compaction/compactionLog/compact/0/{name}"
    (store.root / place).parent.mkdir(parents=True)
    (store.root / "compaction/compactionLog/compact/0/compacting").mkdir()
    _put(store.root, place, make)
    _recovers(store, place, (store.root / place).lstat())
    assert (store.root / "compaction/compactionLog/compact/0/compacting").is_dir()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("place", BESIDE_QUEUES)
@pytest.mark.parametrize("make", [named_pipe, dangling_link, filled_directory])
def test_what_is_beside_queues_is_taken_out(place: str, make: Make, tmp_path: Path) -> None:
    if place == "consumequeue/stray" and make is filled_directory:
        pytest.skip("a directory there is a topic")
    store = Damaged(BASE, stores.fresh_store(BASE, tmp_path))
    _put(store.root, place, make)
    _recovers(store, place, (store.root / place).lstat())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("place", ["consumequeue", "consumequeue/TopicA", QUEUE, "index", "timerlog", "config"])
def test_a_file_or_pipe_where_a_directory_belongs_is_taken_out(place: str, tmp_path: Path) -> None:
    for make in (lambda path: path.write_text("x"), named_pipe):
        root = stores.fresh_store(BASE, tmp_path / make.__name__.strip("<>"))
        store = Damaged(BASE, root)
        _put(store.root, place, make)
        _recovers(store, place, (store.root / place).lstat())


@pytest.mark.sampled(4)
@pytest.mark.parametrize("place", ["timerlog", "consumequeue_ext", "consumequeue", "index", "consumequeue/TopicA", QUEUE])
@pytest.mark.parametrize("make", [link_to_itself, dangling_link])
def test_a_link_to_nowhere_where_a_directory_belongs_is_taken_out(place: str, make: Make, tmp_path: Path) -> None:
    store = Damaged(BASE, stores.fresh_store(BASE, tmp_path))
    _put(store.root, place, make)
    _recovers(store, place, (store.root / place).lstat())


def test_a_linked_queue_directory_is_refused(tmp_path: Path) -> None:
    store = Damaged(BASE, stores.fresh_store(BASE, tmp_path))
    _put(store.root, QUEUE, link_to_a_directory)
    before = _state(store.root)
    done = rmqstore("recover", store.root, "--broker-version", store.release, "--yes", *stores.case(BASE).set_options(store.root))
    assert (done.status, "symbolic link" in done.err) == (3, True)
    assert _state(store.root) == before


def test_a_linked_part_keeps_the_mode_of_its_directory(tmp_path: Path) -> None:
    store = Damaged(BASE, stores.fresh_store(BASE, tmp_path))
    other = tmp_path / "volume"
    (store.root / "commitlog").rename(other)
    other.chmod(0o711)
    (store.root / "commitlog").symlink_to(other)
    (other / "stray").write_text("x")
    settings = {**stores.case(BASE).settings(store.root), "storePathCommitLog": str(other)}
    wish = procedure.RepairRequest("recover", "5.3.3", lambda: Store.open(store.root, settings=settings), Recovery("5.3.3").plan)
    result = procedure.execute(wish, Yes())
    assert (result.errors, result.left) == ({}, 0)
    assert stat.S_IMODE(other.stat().st_mode) == 0o711
    procedure.undo(store.root, None if result.transaction is None else result.transaction.id, Yes())
    assert stat.S_IMODE(other.stat().st_mode) == 0o711


def test_commands_that_rebuild_take_it_out_as_well(tmp_path: Path) -> None:
    options = stores.case(BASE).set_options(tmp_path)
    for command, place in (("rebuild-consumequeue", f"{QUEUE}/{FILE}"), ("rebuild-index", "index/20300101000000000")):
        store = Damaged(BASE, stores.fresh_store(BASE, tmp_path / command))
        _put(store.root, place, named_pipe)
        done = rmqstore(command, store.root, "--broker-version", store.release, "--yes", *options)
        assert done.status == 0, done.err
        assert not (store.root / place).is_fifo()


def test_a_lock_that_leads_to_a_file_is_refused(tmp_path: Path, _elsewhere: Path) -> None:
    """A broker follows the link, and may hold the lock of the file."""
    store = Damaged(BASE, stores.fresh_store(BASE, tmp_path))
    _put(store.root, "lock", lambda path: path.symlink_to(_elsewhere / FILE))
    before = _state(store.root)
    done = rmqstore("recover", store.root, "--broker-version", store.release, "--yes", *stores.case(BASE).set_options(store.root))
    assert (done.status, "symbolic link" in done.err) == (3, True)
    assert _state(store.root) == before


def test_a_plan_that_takes_the_lock_itself_away_is_refused(tmp_path: Path) -> None:
    store = Damaged(BASE, stores.fresh_store(BASE, tmp_path))
    (store.root / "lock").write_text("lock")

    def planner(planning: Planning, opened: Store) -> None:
        planning.builder.quarantine("lock", reason="a test")

    with pytest.raises(RefusedError, match="brokers lock"):
        procedure.execute(procedure.RepairRequest("recover", "5.3.3", lambda: Store.open(store.root), planner), Yes())
    assert (store.root / "lock").read_text() == "lock"


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A directory on another file system than `tmp_path`."""
    other = Path("/dev/shm")
    if not other.is_dir() or same_device(tmp_path, other):
        pytest.skip("there is no second file system")
    with TemporaryDirectory(prefix="rmqstore-test-", dir=other) as directory:
        yield Path(directory)


def _log_moved_to(volume: Path, store: Damaged) -> list[str]:
    for path in (store.root / "commitlog").iterdir():
        shutil.move(path, volume / path.name)
    return [*stores.case(BASE).set_options(store.root), "--set", f"storePathCommitLog={volume}"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["stray", f"{10**6 // 65536 * 65536:020d}"])
@pytest.mark.parametrize("make", [named_pipe, unix_socket, device, dangling_link])
def test_a_special_file_on_another_file_system_is_refused(name: str, make: Make, volume: Path, tmp_path: Path) -> None:
    store = Damaged(BASE, stores.fresh_store(BASE, tmp_path))
    options = _log_moved_to(volume, store)
    make(volume / name)
    before = _state(store.root), _state(volume)

    done = rmqstore("recover", store.root, "--broker-version", store.release, "--yes", *options)

    assert (done.status, done.err.splitlines()[0]) == (
        3,
        f"error: {volume / name} is in the way, and on another file system than the store.",
    )
    assert (_state(store.root), _state(volume)) == before


@pytest.mark.parametrize(("name", "status"), [("stray", 0), (f"{10**6 // 65536 * 65536:020d}", 1)])
def test_a_directory_on_another_file_system_stays_with_a_note(name: str, status: int, volume: Path, tmp_path: Path) -> None:
    """Of the name of a log file it is an error to verification, and the status says that this one remains."""
    store = Damaged(BASE, stores.fresh_store(BASE, tmp_path))
    options = _log_moved_to(volume, store)
    filled_directory(volume / name)
    before = _state(store.root), _state(volume)

    done = rmqstore("recover", store.root, "--broker-version", store.release, "--yes", *options)

    assert (done.status, "move it away by hand" in " ".join(done.out.split())) == (status, True)
    assert (_state(store.root), _state(volume)) == before


def test_a_directory_in_a_second_directory_of_the_log_is_moved_out(tmp_path: Path) -> None:
    root = stores.fresh_store("5.5.1-multipath", tmp_path)
    foreign = root / "commitlog2" / "core.1234" / "core"
    foreign.parent.mkdir()
    foreign.write_bytes(b"x")
    assert rmqstore("recover", root, *stores.case("5.5.1-multipath").set_options(root), "--yes").status == 0
    assert not foreign.parent.exists()
    assert [path.read_bytes() for path in (root / ".rmqstore").glob("*/quarantine/**/core")] == [b"x"]


def test_a_file_in_the_place_of_a_topic_is_moved_out_by_a_rebuild(tmp_path: Path) -> None:
    root = stores.fresh_store(BASE, tmp_path)
    topic = root / "consumequeue" / "TopicA"
    before = {path.relative_to(topic): path.read_bytes() for path in topic.rglob("*") if path.is_file()}
    shutil.rmtree(topic)
    topic.write_bytes(b"x")
    assert rmqstore("rebuild-consumequeue", root, "--topic", "TopicA", *stores.case(BASE).set_options(root), "--yes").status == 0
    assert {path.relative_to(topic): path.read_bytes() for path in topic.rglob("*") if path.is_file()} == before
