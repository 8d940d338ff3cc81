"""Statements of `rmqstore sql` from standard input: a prompt with a history on a terminal, else the text up to each semicolon."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

PROMPT, MORE = "sql> ", "...> "
_ENDS = frozenset({"exit", "quit"})
_KEPT = 1000


def statements() -> Iterator[str]:
    """Yield the statements as they are entered, without their semicolons, up to the end of the input, `exit` or `quit`.

    A semicolon at the end of a line ends a statement. Ctrl-C drops the beginning of one. A terminal has a history, in the user's cache.
    """
    if not sys.stdin.isatty():
        yield from _pieces(_next_line)
        return
    import readline

    from rmqstore.kept import kept_directory

    directory = kept_directory("sql")
    if directory is not None:
        with suppress(OSError):
            readline.read_history_file(directory / "history")
    readline.set_history_length(_KEPT)
    try:
        yield from _pieces(input)
    finally:
        if directory is not None:
            with suppress(OSError):
                readline.write_history_file(directory / "history")


def _pieces(read: Callable[[str], str]) -> Iterator[str]:
    """Yield the statements in the lines that `read` returns for a prompt."""
    text = ""
    while True:
        try:
            line = read(MORE if text else PROMPT)
        except EOFError:
            break
        except KeyboardInterrupt:
            sys.stderr.write("\n")
            text = ""
            continue
        if not text and line.strip().rstrip(";") in _ENDS:
            return
        text = f"{text}\n{line}".strip()
        if text.endswith(";"):
            yield text.rstrip("; \n")
            text = ""
    if text:
        yield text


def _next_line(prompt: str) -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line
