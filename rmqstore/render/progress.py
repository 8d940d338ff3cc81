"""A progress bar with rate and remaining time for work that takes longer than a second, on a terminal only."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rmqstore.terminal import printable

if TYPE_CHECKING:
    from rich.progress import Progress

SHOWN_AFTER_SECONDS = 1.0


class Bar(Protocol):
    """A progress bar that a command advances; `advance` may be called from any thread."""

    def advance(self, amount: int) -> None:
        """Count `amount` more units as done."""


class SilentBar:
    """No bar: standard error is not a terminal, or bars are switched off."""

    def advance(self, amount: int) -> None:
        """Show nothing."""


class TerminalBar:
    """A bar on standard error that appears after a second, even if nothing is done by then, and erases itself at the end."""

    def __init__(self, label: str, total: int | None, unit: str) -> None:
        self._label = label
        self._total = total
        self._unit = unit
        self.done = 0
        self._lock = threading.Lock()
        self._live: Progress | None = None
        self._closed = False
        self._timer = threading.Timer(SHOWN_AFTER_SECONDS, self._appear)
        self._timer.daemon = True
        self._timer.start()

    def _appear(self) -> None:
        with self._lock:
            if not self._closed:
                self._live = _live_bar(self._unit)
                self._live.add_task(self._label, total=self._total, completed=self.done)
                self._live.start()

    def advance(self, amount: int) -> None:
        with self._lock:
            self.done += amount
            if self._live is not None:
                self._live.update(self._live.task_ids[0], completed=self.done)

    def close(self) -> None:
        """Erase the bar."""
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._live is not None:
                self._live.stop()
                self._live = None

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Erase the bar while something else is written to the same terminal, then show it again."""
        with self._lock:
            if self._live is not None:
                self._live.stop()
            try:
                yield
            finally:
                if self._live is not None:
                    self._live.start()


_shown: list[TerminalBar] = []


@contextmanager
def progress(label: str, total: int | None, *, enabled: bool = True, unit: str = "bytes") -> Iterator[Bar]:
    """Show a bar during a `with` block; `total` in `unit`s, None if not known beforehand."""
    if not enabled or not sys.stderr.isatty():
        yield SilentBar()
        return
    bar = TerminalBar(label, total, unit)
    _shown.append(bar)
    try:
        yield bar
    finally:
        _shown.remove(bar)
        bar.close()


@contextmanager
def without_bar() -> Iterator[None]:
    """Write to the terminal in this block without drawing into a progress bar."""
    if _shown:
        with _shown[-1].hidden():
            yield
    else:
        yield


def note(text: str, *, quiet: bool = False) -> None:
    """Write one line to standard error."""
    if not quiet:
        with without_bar():
            print(printable(text), file=sys.stderr, flush=True)


def _live_bar(unit: str) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.speed or 0.0
            return Text(f"{speed / (1 << 20):,.0f} MiB/s" if unit == "bytes" else f"{speed:,.0f} {unit}/s")

    # Standard output may be a pipe with the data in it: rich must not take it over.
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True) if unit == "bytes" else MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(compact=True),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
