"""The progress bar: on a terminal, after a second, and never in the data."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable

import pytest

from rmqstore.render import progress as module
from rmqstore.render.console import Console
from rmqstore.render.progress import SilentBar, TerminalBar, note, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def wait_for_bar(self) -> None:
        until = time.monotonic() + 10
        while not self.getvalue():
            assert time.monotonic() < until, "no bar appears"
            time.sleep(0.01)


@pytest.fixture
def as_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    """Make standard error a terminal; called in the test itself, because the capture of pytest changes it between set-up and test."""

    def install() -> Terminal:
        stream = Terminal()
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "120")
        return stream

    return install


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHOWN_AFTER_SECONDS", 0.0)


def test_no_bar_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress("verify", 100) as bar:
        assert isinstance(bar, SilentBar)
        bar.advance(50)


def test_no_bar_when_not_wanted(as_terminal: Callable[[], Terminal]) -> None:
    as_terminal()
    with progress("verify", 100, enabled=False) as bar:
        assert isinstance(bar, SilentBar)


def test_nothing_is_drawn_in_the_first_second(as_terminal: Callable[[], Terminal]) -> None:
    terminal = as_terminal()
    with progress("verify", 100) as bar:
        assert isinstance(bar, TerminalBar)
        bar.advance(100)
    assert terminal.getvalue() == ""


@pytest.mark.usefixtures("at_once")
def test_a_long_run_shows_label_amount_rate_and_time_left(as_terminal: Callable[[], Terminal]) -> None:
    terminal = as_terminal()
    with progress("verify", 4 << 20) as bar:
        terminal.wait_for_bar()
        bar.advance(1 << 20)
        bar.advance(1 << 20)
    drawn = terminal.getvalue()
    assert "verify" in drawn
    assert "2.0/4.0 MiB" in drawn
    assert "--:--" in drawn or "00:0" in drawn


@pytest.mark.usefixtures("at_once")
def test_the_bar_appears_before_anything_is_done(as_terminal: Callable[[], Terminal]) -> None:
    terminal = as_terminal()
    with progress("sql", None, unit="tasks"):
        terminal.wait_for_bar()
    assert "sql" in terminal.getvalue()


@pytest.mark.usefixtures("at_once")
def test_units_other_than_bytes(as_terminal: Callable[[], Terminal]) -> None:
    terminal = as_terminal()
    with progress("dump", 10, unit="records") as bar:
        terminal.wait_for_bar()
        bar.advance(4)
    assert "4/10" in terminal.getvalue()
    assert "records/s" in terminal.getvalue()


@pytest.mark.usefixtures("at_once")
def test_standard_output_is_left_alone(as_terminal: Callable[[], Terminal]) -> None:
    as_terminal()
    before = sys.stdout
    with progress("verify", 10) as bar:
        bar.advance(1)
        assert sys.stdout is before


@pytest.mark.usefixtures("at_once")
def test_advancing_from_several_threads_loses_nothing(as_terminal: Callable[[], Terminal]) -> None:
    as_terminal()
    with progress("verify", 4000) as bar:
        threads = [threading.Thread(target=lambda: [bar.advance(1) for _ in range(1000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert isinstance(bar, TerminalBar)
        assert bar.done == 4000


@pytest.mark.usefixtures("at_once")
def test_notes_and_rows_go_around_the_bar(as_terminal: Callable[[], Terminal]) -> None:
    terminal = as_terminal()
    screen = Terminal()
    with progress("verify", 10) as bar:
        terminal.wait_for_bar()
        bar.advance(1)
        note("compiling")
        Console(screen, color="never", quiet=False).rows([{"a": 1}])
        bar.advance(1)
    assert screen.getvalue() == "a\n1\n"
    before, found, after = terminal.getvalue().partition("compiling\n")
    assert found
    assert before.endswith("\x1b[2K")
    assert "1/10 bytes" in before and "2/10 bytes" in after


def test_a_quiet_note_says_nothing(as_terminal: Callable[[], Terminal]) -> None:
    terminal = as_terminal()
    note("compiling", quiet=True)
    assert terminal.getvalue() == ""
