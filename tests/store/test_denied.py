"""What may not be read ends no inspection: `info`, `dump` and `recover --dry-run` show the rest, a finding with the command, status 1."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import needs_permissions, rmqstore, without_privileges
from tests.support.stores import case

PLAIN = "5.3.3-plain"
LOG, SECOND = "commitlog/00000000000000000000", "commitlog/00000000000000065536"
EVERYWHERE = [
    "commitlog",
    SECOND,
    "consumequeue",
    "consumequeue/Orders",
    "consumequeue/Orders/1",
    "index",
    "index/2*",
    "checkpoint",
    "lock",
]


def denied(root: Path, name: str) -> Path:
    path = next((root / name).parent.glob(Path(name).name))
    path.chmod(0)
    return path


def run(root: Path, *words: str) -> tuple[int, list[dict[str, Any]]]:
    done = without_privileges(words[0], root, *words[1:], *case(PLAIN).set_options(root), "--format", "json", "--quiet")
    assert "Traceback" not in done.stderr and "unexpected" not in done.stderr, done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@needs_permissions
@pytest.mark.parametrize("name", EVERYWHERE)
def test_info(name: str, fresh_store: Any) -> None:
    root = fresh_store(PLAIN)
    path = denied(root, name)
    status, objects = run(root, "info")
    shown, finding = objects
    assert status == 1
    right = "u+rwx" if path.is_dir() else "u+rw"
    assert shown["not_read"] == [
        {
            "file": path.relative_to(root).as_posix(),
            "reason": f"{path.relative_to(root).as_posix()}: permission denied",
            "next": f"chmod {right} {path}",
        }
    ]
    assert (finding["code"], finding["mend"]) == ("RMQ-ST-UNREADABLE", f"Next: chmod {right} {path}")
    assert (shown["commitlog"]["files"] > 0) is (name != "commitlog")
    assert (shown["queues"]["entries"] > 0) is (name != "consumequeue")


@needs_permissions
def test_info_claims_no_end_of_a_log_whose_last_file_may_not_be_read(fresh_store: Any) -> None:
    root = fresh_store(PLAIN)
    last = max((root / "commitlog").iterdir())
    last.chmod(0)
    log = run(root, "info")[1][0]["commitlog"]
    assert (log["end_offset"], log["last_store_timestamp"]) == (None, None)
    assert log["first_store_timestamp"] is not None


@needs_permissions
@pytest.mark.parametrize(
    ("part", "name"),
    [
        *(("commitlog", LOG), ("commitlog", SECOND), ("consumequeue", "consumequeue/Orders/1"), ("consumequeue", "consumequeue/Orders")),
        *(("index", "index/2*"), ("checkpoint", "checkpoint"), ("commitlog", "commitlog")),
    ],
)
def test_dump(part: str, name: str, fresh_store: Any) -> None:
    root = fresh_store(PLAIN)
    whole = rmqstore("dump", root, "--part", part, *case(PLAIN).set_options(root), "--format", "json").objects
    begin, size = (int(Path(name).name), 65536) if name in (LOG, SECOND) else (0, 1 << 62)
    path = denied(root, name)
    status, objects = run(root, "dump", "--part", part)
    relative = path.relative_to(root).as_posix()
    assert status == 1
    assert objects[-1]["code"] == "RMQ-ST-UNREADABLE"
    assert objects[-1]["file"] == relative
    # Exactly what is in the rest of the part, and no word about damage.
    if part == "commitlog":
        assert objects[:-1] == [value for value in whole if not begin <= value["physical_offset"] < begin + size]
    else:
        assert objects[:-1] == [value for value in whole if not Path(value["file"]).is_relative_to(relative)]


@needs_permissions
def test_dump_does_not_speak_of_what_it_was_not_asked_for(fresh_store: Any) -> None:
    root = fresh_store(PLAIN)
    (root / "checkpoint").chmod(0)
    (root / "consumequeue" / "Orders").chmod(0)
    assert run(root, "dump", "--limit", "1")[0] == 0
    assert run(root, "dump", "--part", "consumequeue", "--topic", "TopicTest")[0] == 0


@pytest.mark.sampled(3)
@needs_permissions
@pytest.mark.parametrize("name", EVERYWHERE)
def test_a_prediction_claims_nothing_of_the_unread(name: str, fresh_store: Any) -> None:
    root = fresh_store(PLAIN)
    path = denied(root, name)
    status, (found, finding) = run(root, "recover", "--dry-run", "--broker-version", "5.3.3")
    assert name == "lock" or (found["instead"]["plan"] is None and "permission" in found["instead"]["refused"])
    assert status == 1
    assert finding["file"] == path.relative_to(root).as_posix()
    decides = name != "lock"
    assert found["starts"] is (None if decides else True)
    assert (found["unknown"] is not None) is decides
    assert not (found["lost"] or {}).get("messages")
    assert not decides or found["files_changed"] == {}
    if name.startswith("consumequeue/"):  # the log was looked at
        assert found["scan"] is not None
        assert found["after_load"]["queues"] is None


@needs_permissions
def test_the_screen_claims_nothing_either(fresh_store: Any) -> None:
    root = fresh_store(PLAIN)
    (root / "commitlog").chmod(0)
    shown = without_privileges("recover", root, "--dry-run", *case(PLAIN).set_options(root)).stdout
    assert "commitlog: permission denied" in shown
    assert "files deleted" not in shown
    assert "lost" not in shown
    shown = without_privileges("info", root, *case(PLAIN).set_options(root)).stdout
    assert "commit log  permission denied" in shown


@needs_permissions
@pytest.mark.parametrize("name", ["commitlog", SECOND, "consumequeue/Orders/1", "index/2*", "checkpoint"])
def test_a_plan_refuses(name: str, fresh_store: Any) -> None:
    root = fresh_store(PLAIN)
    path = denied(root, name)
    right = "u+rwx" if path.is_dir() else "u+rw"
    done = without_privileges("recover", root, "--dry-run", "--strategy", "salvage", *case(PLAIN).set_options(root))
    assert done.returncode == 4
    assert f"hint: First run chmod {right} {path}" in done.stderr


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", ["socket", "link to nothing", "link to itself"])
@pytest.mark.parametrize("name", [SECOND, "consumequeue/Orders/1", "index", "checkpoint", "config"])
def test_foreign_objects_end_nothing(name: str, kind: str, fresh_store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    root = fresh_store(PLAIN)
    path = root / name
    if path.exists():
        path.rename(root.parent / "away")
    if kind == "socket":
        monkeypatch.chdir(path.parent)  # the path of a socket has 108 bytes at most
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    else:
        path.symlink_to("nowhere" if kind == "link to nothing" else path.name)
    for words in (["info"], ["dump"], ["dump", "--part", "consumequeue"], ["recover", "--dry-run"], ["doctor"]):
        done = rmqstore(words[0], root, *words[1:], *case(PLAIN).set_options(root), "--format", "json", "--quiet")
        assert done.status in (0, 1), done.err
        assert not done.crashed
        assert done.objects
