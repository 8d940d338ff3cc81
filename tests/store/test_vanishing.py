"""Files that a running broker deletes or replaces while a command looks: after their directory was listed, or when they are opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import rmqstore

BROKER = "broker-5.5.1-crash"
COMMANDS = (("info",), ("groups",), ("timers",), ("pending",), ("doctor",), ("verify",), ("recover", "--dry-run"))
VICTIMS = ("config/consumerOffset.json", "config/timercheck", "config/delayOffset.json.bak", "index/2*", "commitlog/0*")


@pytest.fixture
def vanishing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, str, Callable[[], None]], None]:
    """What happens to a file when its directory was listed, or just before it is opened or its permission asked, the first time."""

    def arrange(path: Path, moment: str, happens: Callable[[], None]) -> None:
        happened = []

        def now(reached: str) -> None:
            if reached == moment and not happened:
                happened.append(reached)
                happens()

        real_open, real_scandir, real_access = os.open, os.scandir, os.access

        def opening(name: Any, *arguments: Any, **options: Any) -> int:
            if str(name) == str(path):
                now("opened")
            return real_open(name, *arguments, **options)

        def asking(name: Any, *arguments: Any, **options: Any) -> bool:
            if str(name) == str(path):
                now("asked")
            return real_access(name, *arguments, **options)

        class Listing:
            def __init__(self, directory: Any) -> None:
                self._entries = list(real_scandir(directory))
                if str(directory).rstrip("/") == str(path.parent):
                    now("listed")

            def __enter__(self) -> Iterator[os.DirEntry[str]]:
                return iter(self._entries)

            def __exit__(self, *_: object) -> None:
                pass

        monkeypatch.setattr(os, "open", opening)
        monkeypatch.setattr(os, "access", asking)
        monkeypatch.setattr(os, "scandir", Listing)

    return arrange


@pytest.mark.parametrize("moment", ["listed", "asked", "opened"])
@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_file_that_is_deleted_ends_no_command(words: tuple[str, ...], victim: str, moment: str, fresh_store: Any, vanishing: Any) -> None:
    root = fresh_store(BROKER)
    path = next((root / victim).parent.glob(Path(victim).name))
    vanishing(path, moment, path.unlink)
    run = rmqstore(words[0], root, *words[1:], "--format", "json")
    assert run.status in (0, 1) and not run.crashed, run.err
    assert "does not exist" not in run.err and "No such file" not in run.err


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_file_that_is_replaced_is_not_denied(words: tuple[str, ...], fresh_store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system denies what is not there at this moment, and the next moment it is there again."""
    root = fresh_store(BROKER)
    path, old = root / "config" / "consumerOffset.json", root / "config" / "consumerOffset.json.bak"
    real_access = os.access

    def asking(name: Any, *arguments: Any, **options: Any) -> bool:
        if str(name) != str(path):
            return real_access(name, *arguments, **options)
        path.rename(old)
        allowed = real_access(name, *arguments, **options)
        path.write_bytes(old.read_bytes())
        return allowed

    monkeypatch.setattr(os, "access", asking)
    run = rmqstore(words[0], root, *words[1:], "--format", "json")
    assert not run.crashed, run.err
    assert "RMQ-ST-UNREADABLE" not in run.out and "permission" not in run.out + run.err


def test_offsets_that_a_broker_replaces_are_read_all_the_same(fresh_store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker writes a `.tmp`, deletes the file and renames the other one: for a moment there is no file."""
    root = fresh_store(BROKER)
    path = root / "config" / "consumerOffset.json"
    undisturbed = rmqstore("groups", root, "--format", "json").objects
    new = path.with_name(path.name + ".tmp")
    path.rename(new)
    waits = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        new.rename(path)

    monkeypatch.setattr("rmqstore.verify.parts.config.time.sleep", wait)
    assert rmqstore("groups", root, "--format", "json").objects == undisturbed
    assert undisturbed and len(waits) == 1
