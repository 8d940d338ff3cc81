"""A repair that was stopped in the middle is seen by every command that looks at a store, and hostile folders harm none of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.repair.transaction.folder import State, find, unfinished
from rmqstore.store.transactions import read_transactions
from tests.repair.every_action import SAMPLE, Changing
from tests.repair.faults import KillAt, Killed
from tests.security.stopping import stop_in_the_middle
from tests.support import stores
from tests.support.builder import StoreBuilder
from tests.support.cli import rmqstore
from tests.support.waiting import PATIENCE

NAME = "20240101-000000-000000-abcdef"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which a transaction was stopped in the middle."""
    work = tmp_path_factory.mktemp("stopped")
    changing = Changing(stores.fresh_store(SAMPLE, work / "it's a"), {})
    changing.keep_plan()
    stop_in_the_middle(changing)
    return changing.root


@pytest.fixture
def stopped(prepared: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(prepared, tmp_path / "it's a store", symlinks=True))


def _ways_out(root: Path) -> tuple[str, str]:
    (folder,) = (root / ".rmqstore").iterdir()
    quoted = str(root).replace("'", "'\"'\"'")
    return f"rmqstore apply '{quoted}/.rmqstore/{folder.name}/plan.json'", f"rmqstore undo '{quoted}' {folder.name}"


def test_verify(stopped: Path) -> None:
    run = rmqstore("verify", stopped, "--format", "json")
    first = run.objects[0]
    assert (run.status, first["code"], first["severity"]) == (1, "RMQ-ST-UNFINISHED", "error")
    assert all(line in first["mend"] for line in _ways_out(stopped))
    assert first["found"] == first["file"].rpartition("/")[2]


@pytest.mark.parametrize("options", [["--part", "index"], ["--quick"], ["--topic", "none"], ["--engine", "local", "--threads", "1"]])
def test_verify_of_a_part(options: list[str], stopped: Path) -> None:
    run = rmqstore("verify", stopped, "--format", "json", *options)
    assert (run.status, run.objects[0]["code"]) == (1, "RMQ-ST-UNFINISHED")


def test_verify_of_several(stopped: Path, tmp_path: Path) -> None:
    sound = StoreBuilder(tmp_path / "sound").message().build()
    run = rmqstore("verify", stopped, sound, "--format", "json")
    found = [one["store"] for one in run.objects if one.get("code") == "RMQ-ST-UNFINISHED"]
    assert found == [str(stopped)]


def test_doctor(stopped: Path) -> None:
    run = rmqstore("doctor", stopped, "--format", "json")
    first, last = run.objects[0], run.objects[-1]
    assert (run.status, first["code"]) == (1, "RMQ-ST-UNFINISHED")
    assert last["next"] == _ways_out(stopped)[0]
    assert all(line in first["mend"] for line in _ways_out(stopped))
    assert "was stopped in the middle" in last["headline"]
    assert "was stopped in the middle" in last["verdict"]
    table = rmqstore("doctor", stopped)
    assert "was stopped in the middle" in table.out.splitlines()[0]
    assert all(line in table.out for line in _ways_out(stopped))


def test_info(stopped: Path) -> None:
    (told,) = rmqstore("info", stopped, "--format", "json").objects
    assert (told["unfinished"]["continue"], told["unfinished"]["undo"]) == _ways_out(stopped)
    table = rmqstore("info", stopped)
    assert all(line in table.out.splitlines()[1] for line in _ways_out(stopped))
    assert table.out.splitlines()[-1] == _ways_out(stopped)[0]


def test_dry_runs(stopped: Path) -> None:
    told = rmqstore("recover", stopped, "--dry-run", "--format", "json").objects[0]
    assert (told["unfinished"]["continue"], told["unfinished"]["undo"]) == _ways_out(stopped)
    assert all(line in rmqstore("recover", stopped, "--dry-run").err for line in _ways_out(stopped))
    for words in (["--strategy", "salvage"], ["--strategy", "broker"]):
        run = rmqstore("recover", stopped, "--dry-run", *words)
        assert run.status == 3
        assert all(line in run.err for line in _ways_out(stopped))


def test_the_commands_end_it(stopped: Path) -> None:
    (folder,) = (stopped / ".rmqstore").iterdir()
    assert rmqstore("undo", stopped, folder.name, "--yes").status == 0
    for words in (["verify", stopped], ["doctor", stopped], ["info", stopped]):
        assert "stopped in the middle" not in rmqstore(*words).out


def test_at_every_call_of_an_apply_and_an_undo(tmp_path: Path) -> None:
    """What a reader sees is what the transactions themselves say."""
    changing = Changing(stores.fresh_store(SAMPLE, tmp_path), {})
    changing.keep_plan()
    for step, calls in ((changing.apply, range(0, 400, 7)), (changing.undo, range(0, 400, 7))):
        for at in calls:
            try:
                step(KillAt(at))
            except Killed:
                found = read_transactions(changing.root)
                applying = [one.id for one in changing.transactions if one.state is State.APPLYING]
                assert found.damaged == ()
                assert (found.stopped is None) == (not applying)
                assert found.stopped is None or found.stopped.id in applying
                assert found.stopped is None or found.stopped.undoes == find(changing.root, found.stopped.id).plan.undoes
            else:
                break
        assert unfinished(changing.root) is None


# What does not belong there


def _folder(root: Path) -> Path:
    folder = root / ".rmqstore" / NAME
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text('{\n "type": "plan",\n "command": "recover",\n "actions": []\n}')
    (folder / "journal.jsonl").write_text('{"event":"prepared"}\n')
    return folder


def _replaced(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        path = _folder(root) / name
        path.unlink()
        make(path)

    return damage


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 42)


def _tool_is(make: Callable[[Path], object]) -> Callable[[Path], None]:
    return lambda root: make(root / ".rmqstore") and None


def _elsewhere(path: Path) -> None:
    target = path.parent.parent / "elsewhere"
    shutil.copytree(_folder(target.parent / "other").parent, target)
    path.symlink_to(target)


HOSTILE: dict[str, Callable[[Path], None]] = {
    "the directory is a link": _tool_is(_elsewhere),
    "the directory is a link to itself": _tool_is(lambda path: path.symlink_to(path)),
    "the directory is a file": _tool_is(lambda path: path.write_text("x")),
    "the directory is a pipe": _tool_is(os.mkfifo),
    "a folder with another name": lambda root: (root / ".rmqstore" / "x\x1b[2J").mkdir(parents=True),
    "a folder is a link": lambda root: (
        _folder(root).rename(root / "elsewhere"),
        (root / ".rmqstore" / NAME).symlink_to(root / "elsewhere"),
    )[1],
    "the journal is a pipe": _replaced("journal.jsonl", os.mkfifo),
    "the journal is a link": _replaced("journal.jsonl", lambda path: path.symlink_to("/etc/passwd")),
    "the journal is a directory": _replaced("journal.jsonl", Path.mkdir),
    "the journal is a device": _replaced("journal.jsonl", lambda path: path.symlink_to("/dev/zero")),
    "the journal is endless": _replaced("journal.jsonl", _sparse),
    "the journal has one long line": _replaced("journal.jsonl", lambda path: path.write_bytes(b"[" * (70 << 20))),
    "the journal is nested": _replaced("journal.jsonl", lambda path: path.write_bytes(b"[" * 100_000 + b"\n")),
    "the journal has unknown events": _replaced("journal.jsonl", lambda path: path.write_text('{"event":"x"}\n')),
    "the plan is a pipe": _replaced("plan.json", os.mkfifo),
    "the plan is a link": _replaced("plan.json", lambda path: path.symlink_to("/etc/passwd")),
    "the plan is missing": _replaced("plan.json", lambda path: None),
    "the plan is endless": _replaced("plan.json", _sparse),
    "the plan is no plan": _replaced("plan.json", lambda path: path.write_text("hello")),
    "the plan is no text": _replaced("plan.json", lambda path: path.write_bytes(b"\xff\xfe")),
    "the plan has a hostile command": _replaced(
        "plan.json", lambda path: path.write_text('{\n "command": "x;\\u001b[2J",\n "actions": []\n}')
    ),
    "the plan undoes what is no transaction": _replaced(
        "plan.json", lambda path: path.write_text('{\n "command": "x",\n "undoes": "../..",\n "actions": []\n}')
    ),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("damage", HOSTILE.values(), ids=HOSTILE)
def test_what_does_not_belong_there_is_a_warning_that_says_what_to_move_away(damage: Callable[[Path], None], tmp_path: Path) -> None:
    root = StoreBuilder(tmp_path / "store").message().message().build()
    damage(root)
    found = read_transactions(root)
    assert (found.stopped, len(found.damaged)) == (None, 1)
    told = [one for one in rmqstore("verify", root, "--format", "json").objects if one.get("code") == "RMQ-ST-TRANSACTION"]
    assert [(one["severity"], one["file"]) for one in told] == [("warning", str(found.damaged[0].path.relative_to(root)))]
    assert "Move it out of" in told[0]["mend"]
    assert "Traceback" not in rmqstore("doctor", root).err
    (info,) = rmqstore("info", root, "--format", "json").objects
    assert any("Move it out of" in note for note in info["notes"])
    run = rmqstore("recover", root, "--yes")
    # A folder that no transaction has made is none of a repair's business.
    assert run.status in ((0,) if damage is HOSTILE["a folder with another name"] else (3, 4))
    assert "rmqstore undo" not in run.err


@pytest.mark.parametrize("name", ["the journal is endless", "the journal has one long line", "the plan is endless"])
def test_little_memory_is_enough(name: str, tmp_path: Path) -> None:
    root = StoreBuilder(tmp_path / "store").message().build()
    HOSTILE[name](root)
    code = (
        "import resource, sys; from pathlib import Path; from rmqstore.store.transactions import read_transactions; "
        "resource.setrlimit(resource.RLIMIT_AS, (512 << 20,) * 2); print(read_transactions(Path(sys.argv[1])).damaged[0].why)"
    )
    done = subprocess.run([sys.executable, "-c", code, root], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


def test_a_folder_of_another_user_that_cannot_be_read(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to become somebody else")
    root = StoreBuilder(tmp_path / "store").message().build()
    folder = _folder(root)
    folder.chmod(0o700)
    code = (
        "import os, sys; from pathlib import Path; from rmqstore.store.transactions import read_transactions; os.setuid(65534); "
        "print(read_transactions(Path(sys.argv[1])).damaged[0].why)"
    )
    for path in (*tmp_path.parents, tmp_path):
        if path.stat().st_uid == 0 and path.is_relative_to("/tmp") and path != Path("/tmp"):
            path.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", code, root], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "it cannot be read: Permission denied\n", done.stderr


def test_an_ordinary_history_is_no_finding(tmp_path: Path) -> None:
    changing = Changing(stores.fresh_store(SAMPLE, tmp_path), {})
    changing.keep_plan()
    changing.apply()
    assert read_transactions(changing.root).damaged == ()
    changing.undo()
    found = {one.get("code") for one in rmqstore("verify", changing.root, "--format", "json").objects}
    assert not {"RMQ-ST-UNFINISHED", "RMQ-ST-TRANSACTION"} & found
