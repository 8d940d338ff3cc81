"""Directories from which code is loaded: only those that no other user could have filled."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore import kept
from rmqstore.kept import kept_directory, private_directory
from rmqstore.ownership import problem_of
from rmqstore.pipeline.spark.java_classes import CdsArchive
from rmqstore.scan import cache, machinecode
from tests.support.waiting import PATIENCE

NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give directories to other users")
KERNEL = "from rmqstore.scan.kernels import raw; print(raw.first_nonzero(0, 0, 0))"
"""A program that loads the kernels."""


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, and every warning may come again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir(mode=0o700)
    kept.warn_unsafe.cache_clear()


def _shared(tmp_path: Path) -> Path:
    return tmp_path / "temporary" / f"rmqstore-{os.geteuid()}" / "rmqstore" / "kernels"


def test_everything_that_is_made_is_closed_for_others(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        directory = kept_directory("kernels", "mark")
    finally:
        os.umask(old)
    assert directory == tmp_path / "cache" / "rmqstore" / "kernels" / "mark"
    for path in (directory, *directory.parents[:3]):
        assert path.stat().st_mode & 0o777 == 0o700


def test_a_directory_that_others_may_only_read_is_closed(tmp_path: Path) -> None:
    (tmp_path / "cache" / "rmqstore").mkdir(parents=True, mode=0o755)
    assert kept_directory("kernels") == tmp_path / "cache" / "rmqstore" / "kernels"
    assert (tmp_path / "cache" / "rmqstore").stat().st_mode & 0o777 == 0o700


def _linked(path: Path) -> None:
    path.rmdir()
    (path.parent / "other").mkdir(mode=0o700)
    path.symlink_to(path.parent / "other")


def _given_away(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY)


UNSAFE: dict[str, tuple[str, Callable[[Path], None]]] = {
    "others may write to it": ("cache/rmqstore", lambda path: path.chmod(0o777)),
    "the group may write to it": ("cache/rmqstore", lambda path: path.chmod(0o770)),
    "sticky does not help inside": ("cache/rmqstore", lambda path: path.chmod(0o1777)),
    "others may write to what is in it": ("cache/rmqstore/kernels", lambda path: path.chmod(0o777)),
    "others may write above it": ("cache", lambda path: path.chmod(0o777)),
    "it is a link": ("cache/rmqstore", _linked),
    "what is in it is a link": ("cache/rmqstore/kernels", _linked),
}
GIVEN_AWAY: dict[str, tuple[str, Callable[[Path], None]]] = {
    "it belongs to another user": ("cache/rmqstore", _given_away),
    "what is in it belongs to another user": ("cache/rmqstore/kernels", _given_away),
    "the home belongs to another user, as with sudo": ("cache", _given_away),
}


@pytest.mark.parametrize(
    ("place", "harm"),
    [
        *(pytest.param(*one, id=name) for name, one in UNSAFE.items()),
        *(pytest.param(*one, id=name, marks=AS_ROOT) for name, one in GIVEN_AWAY.items()),
    ],
)
def test_what_others_could_have_filled_is_not_used(
    place: str, harm: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cache" / "rmqstore" / "kernels").mkdir(parents=True, mode=0o700)
    for directory in (tmp_path / "cache", tmp_path / "cache" / "rmqstore"):
        directory.chmod(0o700)
    if harm is _linked and place.endswith("rmqstore"):
        (tmp_path / "cache" / "rmqstore" / "kernels").rmdir()
    harm(tmp_path / place)
    assert kept_directory("kernels") == _shared(tmp_path)
    assert kept_directory("kernels") == _shared(tmp_path)
    told = capsys.readouterr().err
    assert told.startswith("warning: ")
    assert told.count("\n") == 1


def test_a_sticky_directory_above_is_safe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o1777)
    assert kept_directory("kernels") == tmp_path / "cache" / "rmqstore" / "kernels"
    assert capsys.readouterr().err == ""


def test_a_link_on_the_way_is_followed_where_nobody_else_can_change_it(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir(mode=0o700)
    (tmp_path / "cache").symlink_to("disk/../disk")
    assert kept_directory("kernels") == tmp_path / "cache" / "rmqstore" / "kernels"
    (tmp_path / "disk").chmod(0o777)
    assert kept_directory("kernels") == _shared(tmp_path)


@AS_ROOT
def test_a_link_of_another_user_in_a_sticky_directory(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o1777)
    (tmp_path / "target").mkdir(mode=0o700)
    (tmp_path / "open" / "link").symlink_to(tmp_path / "target")
    (tmp_path / "target" / "mine").mkdir(mode=0o700)
    assert problem_of(tmp_path / "open" / "link" / "mine") is None
    os.chown(tmp_path / "open" / "link", NOBODY, NOBODY, follow_symlinks=False)
    assert problem_of(tmp_path / "open" / "link" / "mine") == f"{tmp_path}/open/link belongs to user {NOBODY}"


def test_a_loop_of_links(tmp_path: Path) -> None:
    (tmp_path / "cache").symlink_to("cache")
    assert kept_directory("kernels") == _shared(tmp_path)


def test_a_relative_cache_home_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert kept_directory("kernels") == tmp_path / "home" / ".cache" / "rmqstore" / "kernels"


def test_nothing_is_safe(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    (tmp_path / "temporary").chmod(0o777)
    assert kept_directory("kernels") is None
    private = private_directory("x-")
    assert not private.is_relative_to(tmp_path)
    assert problem_of(private) is None
    private.rmdir()
    assert list((tmp_path / "temporary").glob("x-*")) == []


@AS_ROOT
def test_classes_of_java_of_another_user_are_not_loaded(tmp_path: Path) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    first = CdsArchive(java, 17, tmp_path / "jars", (), "jobs")
    assert first._path is not None
    first._path.write_bytes(b"planted")
    assert CdsArchive(java, 17, tmp_path / "jars", (), "jobs").are_kept
    _given_away(first._path.parent)
    assert not CdsArchive(java, 17, tmp_path / "jars", (), "jobs").are_kept


def _run(**environment: str) -> str:
    """Load the kernels in a new process and return what it says."""
    done = subprocess.run([sys.executable, "-c", KERNEL], env=os.environ | environment, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def kernels() -> Path:
    """The file with kernels in the cache of all tests."""
    path = cache.kept_path(machinecode.MODULES)
    assert path is not None
    if cache.read(path) is None:
        subprocess.run([sys.executable, "-c", KERNEL], check=True, timeout=PATIENCE)
    return path


def _filled(base: Path, kernels: Path) -> Path:
    """The kernels of all tests, in another cache."""
    directory = base / "rmqstore" / "kernels"
    directory.mkdir(parents=True, mode=0o700)
    return Path(shutil.copy(kernels, directory))


@AS_ROOT
def test_the_home_of_another_user(tmp_path: Path, kernels: Path) -> None:
    """As under a sudo that keeps HOME."""
    cache_ = tmp_path / "home" / ".cache"
    (cache_ / "rmqstore").mkdir(parents=True)
    for path in (tmp_path / "home", cache_, cache_ / "rmqstore"):
        _given_away(path)
    (tmp_path / "t").mkdir(mode=0o700)
    _filled(tmp_path / "t" / f"rmqstore-{os.geteuid()}", kernels)
    told = _run(HOME=str(tmp_path / "home"), XDG_CACHE_HOME="", TMPDIR=str(tmp_path / "t"))
    assert told == f"warning: {cache_ / 'rmqstore'} belongs to user {NOBODY}, so the cache there is not used.\n"
    assert list((cache_ / "rmqstore").iterdir()) == []


def test_a_planted_kernel_is_not_called(tmp_path: Path, kernels: Path) -> None:
    """The machine code is replaced by bytes that fit their hash and that no loader takes."""
    temporary = tmp_path / "temporary"
    path = _filled(tmp_path / "cache", kernels)
    _filled(temporary / f"rmqstore-{os.geteuid()}", kernels)
    cache.write(path, [b"planted"])
    variables = os.environ | {"TMPDIR": str(temporary)}
    done = subprocess.run([sys.executable, "-c", KERNEL], env=variables, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode != 0  # this is what would happen
    (tmp_path / "cache" / "rmqstore").chmod(0o777)
    assert _run(TMPDIR=str(temporary)).count("\n") == 1


HARMS: dict[str, Callable[[bytes], bytes]] = {
    "short": lambda data: data[:-100],
    "other": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_a_damaged_file_is_not_used(harm: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "kernels.o"
    cache.write(path, [b"first", b"second"])
    assert path.stat().st_mode & 0o777 == 0o600
    assert cache.read(path) == [b"first", b"second"]
    path.write_bytes(harm(path.read_bytes()))
    assert cache.read(path) is None


@pytest.mark.exhaustive
def test_a_damaged_file_is_compiled_again(tmp_path: Path, kernels: Path) -> None:
    path = _filled(tmp_path / "cache", kernels)
    path.write_bytes(HARMS["other"](path.read_bytes()))
    assert _run().strip() == machinecode.COMPILING
    assert cache.read(path) is not None
    assert list(path.parent.iterdir()) == [path]


def test_no_place_for_kernels(tmp_path: Path) -> None:
    """They are compiled for this process only."""
    for name in ("cache", "temporary"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name).chmod(0o777)
    assert _run(TMPDIR=str(tmp_path / "temporary")).count("so the cache there is not used") == 2
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.exhaustive
def test_two_first_uses_at_the_same_time(tmp_path: Path) -> None:
    runs = [subprocess.Popen([sys.executable, "-c", KERNEL], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    assert [run.communicate(timeout=PATIENCE) for run in runs] == [(b"0\n", f"{machinecode.COMPILING}\n".encode())] * 2
    (path,) = (tmp_path / "cache" / "rmqstore" / "kernels").iterdir()
    assert cache.read(path) is not None
