"""On a terminal: a pager if one is named, and codes that lead to their chapter."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path

from tests.support.stores import sample_store

ROOT = Path(__file__).resolve().parents[2]


def on_terminal(*words: str | Path, **variables: str) -> tuple[int, str]:
    """The exit status and what a terminal of 120 columns gets."""
    child, descriptor = pty.fork()
    if child == 0:
        os.environ |= {"TERM": "xterm", "COLUMNS": "120", **variables}
        program = [sys.executable, "-P", "-m", "rmqstore", *map(str, words)]
        os.execv(program[0], program)
    shown = b""
    try:
        while data := os.read(descriptor, 1 << 16):
            shown += data
    except OSError:  # the other side is closed
        pass
    os.close(descriptor)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shown.decode().replace("\r\n", "\n")


def test_without_a_pager_nothing_waits_and_with_one_it_gets_all() -> None:
    status, plain = on_terminal("explain", "RMQ-CL-CRC")
    assert (status, on_terminal("explain", "RMQ-CL-CRC", RMQSTORE_PAGER="cat")) == (0, (0, plain))
    assert "\x1b[" in plain
    assert on_terminal("explain", "RMQ-CL-CRC", RMQSTORE_PAGER="wc -l")[1].strip() == str(plain.count("\n"))


def test_a_pager_that_is_left_early() -> None:
    status, shown = on_terminal("dump", sample_store("5.3.3-plain"), "--part", "commitlog", RMQSTORE_PAGER="head -n 2")
    assert (status, shown.count("\n")) == (0, 2)


def test_a_pager_that_does_not_start() -> None:
    status, shown = on_terminal("explain", "RMQ-CL-CRC", RMQSTORE_PAGER="no-such-pager")
    assert status == 2
    assert "RMQSTORE_PAGER=no-such-pager does not start" in shown
    assert "Traceback" not in shown


def test_the_exit_status_stays(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / ("0" * 20)).write_bytes(b"\xaa" * 4096)
    plain = on_terminal("doctor", tmp_path)[0]
    assert (plain, on_terminal("doctor", tmp_path, RMQSTORE_PAGER="cat")[0]) == (1, 1)


def test_a_code_leads_to_its_chapter(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / ("0" * 20)).write_bytes(b"\xaa" * 4096)
    link = f"{(ROOT / 'docs' / 'findings.md').as_uri()}#rmq-cl-"
    assert link in on_terminal("verify", tmp_path)[1]
    assert "]8;" not in on_terminal("verify", tmp_path, NO_COLOR="1")[1]
