"""`rmqstore explain` on lines and logs, with and without the store that they are about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import stores
from tests.support.cli import rmqstore

STORE = "5.3.3-plain-crash"
FILE_SIZE = 65536
PATH = "/home/rocketmq/store"

LOG = f"""\
2026-11-21 10:00:00 INFO main - last shutdown abnormally, store path root dir: {PATH}
2026-11-21 10:00:00 INFO main - load {PATH}/commitlog/00000000000000000000 OK
2026-11-21 10:00:00 ERROR main - [BUG]The mappedFile queue's data is damaged, the adjacent mappedFile's offset don't match. \
pre file {PATH}/commitlog/00000000000000065536, cur file {PATH}/commitlog/00000000000000196608
2026-11-21 10:00:00 INFO main - load commit log OK
2026-11-21 10:00:01 WARN main - Maybe try to build consume queue repeatedly maxPhysicOffset=274891 phyOffset=196608
2026-11-21 10:00:01 WARN main - Maybe try to build consume queue repeatedly maxPhysicOffset=274891 phyOffset=196900
2026-11-21 10:00:02 WARN main - found a illegal magic code 0x0
2026-11-21 10:00:02 INFO main - recover physics file end, {PATH}/commitlog/00000000000000262144 pos=12755
2026-11-21 10:00:05 WARN PullMessageThread_4 - the moon rises over the pond, group: g1
2026-11-21 10:00:06 WARN PullMessageThread_4 - the moon rises over the pond, group: g2
2026-11-21 10:00:07 ERROR ReputMessageService - create mappedFile exception
java.io.IOException: No space left on device
\tat java.base/sun.nio.ch.FileDispatcherImpl.truncate0(Native Method)
2026-11-21 10:00:09 INFO StoreScheduledThread1 - something else
"""


def _explained(*arguments: str | Path) -> list[dict[str, Any]]:
    run = rmqstore("explain", *arguments, "--format", "json")
    assert (run.status, run.err) == (0, "")
    return run.objects


def _holds(line: str, store: Path) -> list[tuple[str, str | None, int | None]]:
    (found,) = _explained(line, "--store", store)
    return [(place["holds"], place["file"], place["position"]) for place in found["store"]]


def test_a_whole_log_the_worst_first(tmp_path: Path) -> None:
    path = tmp_path / "store.log"
    path.write_text(LOG)
    *groups, summary = _explained("--log", path)
    assert [(found["code"], found["severity"], found["level"], found["count"]) for found in groups] == [
        ("LOG-LOAD-ADJACENT", "error", "ERROR", 1),
        ("LOG-CREATE-FILE", "error", "ERROR", 1),
        (None, None, "WARN", 2),
        ("LOG-SHUTDOWN-ABNORMAL", "info", "INFO", 1),
        ("LOG-MAGIC-END", "info", "WARN", 1),
        ("LOG-SCAN-STOP", "info", "INFO", 1),
    ]
    assert groups[1]["cause"]["code"] == "CAUSE-NO-SPACE"
    unknown = groups[2]
    assert (unknown["template"], unknown["first_time"], unknown["last_time"]) == (
        "the moon rises over the pond, group: g#",
        "2026-11-21 10:00:05",
        "2026-11-21 10:00:06",
    )
    assert (unknown["codes"], unknown["next"], unknown["then"], unknown["store"]) == ([], None, None, None)
    assert summary == {
        "type": "summary",
        "schema": 1,
        "lines": 14,
        "first_time": "2026-11-21 10:00:00",
        "last_time": "2026-11-21 10:00:09",
        "explained": 5,
        "harmless": 4,
        "unknown_warnings_and_errors": 2,
        "other": 1,
    }


def test_a_whole_log_with_its_store(tmp_path: Path, fresh_store: Callable[[str], Path]) -> None:
    store = fresh_store(STORE)
    (store / "commitlog" / "00000000000000131072").unlink()
    before = stores.snapshot(store)
    path = tmp_path / "store.log"
    path.write_text(LOG)
    *groups, _ = _explained("--log", path, store)
    by_code = {found["code"]: found for found in groups}
    adjacent = by_code["LOG-LOAD-ADJACENT"]["store"]
    assert [(place["file"], place["exists"]) for place in adjacent] == [
        ("commitlog/00000000000000065536", True),
        ("commitlog/00000000000000196608", True),
    ]
    assert "65536 bytes are missing after" in adjacent[1]["detail"]
    assert by_code["LOG-SHUTDOWN-ABNORMAL"]["store"][0]["detail"].startswith("present")
    (stop,) = by_code["LOG-SCAN-STOP"]["store"]
    assert (stop["file"], stop["position"], stop["holds"]) == ("commitlog/00000000000000262144", 12755, "zeros")
    assert stores.snapshot(store) == before


def test_what_lies_at_an_offset(fresh_store: Callable[[str], Path]) -> None:
    store = fresh_store(STORE)
    case = stores.case(STORE)
    messages = case.truth()
    record = messages[5]
    last_of_first_file = max(m["physicalOffset"] + m["size"] for m in messages if m["physicalOffset"] < FILE_SIZE)
    first_file = "commitlog/00000000000000000000"

    def at(offset: int) -> list[tuple[str, str | None, int | None]]:
        return _holds(f"found a half message at {offset}, it will be truncated.", store)

    assert at(record["physicalOffset"]) == [("record", first_file, record["physicalOffset"])]
    assert at(record["physicalOffset"] + 7) == [("inside_record", first_file, record["physicalOffset"] + 7)]
    assert at(last_of_first_file) == [("blank", first_file, last_of_first_file)]
    end = case.max_phy_offset
    assert at(end) == [("zeros", "commitlog/00000000000000262144", end - 262144)]
    assert at(10 * FILE_SIZE) == [("behind_log", None, None)]
    assert at(-1) == [("nothing", None, None)]
    assert at(10**30) == [("behind_log", None, None)]


def test_damage_missing_files_and_expired_files(fresh_store: Callable[[str], Path]) -> None:
    store = fresh_store(STORE)
    record = stores.case(STORE).truth()[5]
    with (store / "commitlog" / "00000000000000000000").open("r+b") as stream:
        stream.seek(record["physicalOffset"] + record["size"] // 2)
        stream.write(b"\xff" * 8)
        stream.seek(0)
        stream.write(b"\x00\x00\x01\x00garbage!")
    offset = record["physicalOffset"]
    assert _holds(f"found a half message at {offset}, it will be truncated.", store)[0][0] == "damage"
    assert _holds("found a half message at 0, it will be truncated.", store)[0][0] == "damage"
    (store / "commitlog" / "00000000000000131072").unlink()
    assert _holds("found a half message at 131072, it will be truncated.", store) == [("missing_file", None, None)]
    (store / "commitlog" / "00000000000000000000").unlink()
    assert _holds("found a half message at 0, it will be truncated.", store) == [("before_log", None, None)]


def test_files_and_queues_that_lines_name(fresh_store: Callable[[str], Path]) -> None:
    store = fresh_store(STORE)
    queue = "consumequeue/TopicA/0/00000000000000000000"
    (store / queue).write_bytes(b"short")
    text = "length not matched message store config value, please check it manually"
    (found,) = _explained(f"{PATH}/{queue}\t5 {text}", "--store", store)
    (place,) = found["store"]
    assert (place["holds"], place["file"], place["exists"]) == ("file", queue, True)
    assert "5 bytes long" in place["detail"]
    assert _holds(f"{PATH}/commitlog/.keep\t5 {text}", store) == [("nothing", "commitlog/.keep", None)]
    order = "[BUG]logic queue order maybe wrong, expectLogicOffset: 580 currentLogicOffset: 540 Topic: {} QID: {} Diff: 40"
    assert _holds(order.format("TopicA", 2), store) == [("queue", "consumequeue/TopicA/2", None)]
    assert _holds(order.format("TopicA", 99), store) == [("nothing", None, None)]


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../../../etc/passwd", "commitlog/../../etc/passwd", "commitlog/a\0b", "/", "index/" + "x" * 5000]
)
def test_a_path_that_leads_out_of_the_store_is_not_followed(path: str, fresh_store: Callable[[str], Path]) -> None:
    (found,) = _explained(f"recover from this mapped file {path}", "--store", fresh_store(STORE))
    (place,) = found["store"]
    assert place["exists"] is False or place["holds"] == "unreadable"


def test_a_topic_that_leads_out_of_the_store_is_not_followed(fresh_store: Callable[[str], Path]) -> None:
    order = "[BUG]logic queue order maybe wrong, expectLogicOffset: 580 currentLogicOffset: 540 Topic: {} QID: 0 Diff: 40"
    assert _holds(order.format("../../config"), fresh_store(STORE)) == [("nothing", None, None)]


def test_state_of_the_disk_is_told_once_and_other_parts_only_where_they_are(fresh_store: Callable[[str], Path]) -> None:
    store = fresh_store(STORE)
    (found,) = _explained("create mappedFile exception\njava.io.IOException: No space left on device", "--store", store)
    assert [(place["place"], place["file"]) for place in found["store"]] == [("disk", "."), ("disk", "commitlog")]
    missing = f"store checkpoint file not exists, {PATH}/checkpoint"
    (found,) = _explained(missing, "--store", store)
    assert [place["detail"].partition(" ")[0] for place in found["store"]] == ["physic_msg_timestamp", "4096"]
    (found,) = _explained(missing, "--store", store / "commitlog")
    assert [(place["holds"], place["exists"]) for place in found["store"]] == [("nothing", False)]


def test_the_commit_log_as_it_is_now(fresh_store: Callable[[str], Path]) -> None:
    store = fresh_store(STORE)
    (store / "commitlog" / ".keep").write_bytes(b"")
    (found,) = _explained("load commit log Failed", "--store", store)
    (state,) = found["store"]
    assert state["detail"].startswith("6 files, offsets 0 to 393216; .keep: ")


def test_whether_a_process_uses_the_store_is_told(fresh_store: Callable[[str], Path]) -> None:
    (found,) = _explained("java.lang.RuntimeException: Lock failed,MQ already started", "--store", fresh_store(STORE))
    assert [place["detail"] for place in found["store"]] == ["no process uses the store now"]


def test_the_next_command_is_ready_to_run(fresh_store: Callable[[str], Path]) -> None:
    store = fresh_store(STORE)
    offset = stores.case(STORE).truth()[3]["physicalOffset"]
    (found,) = _explained(f"found a half message at {offset}, it will be truncated.", "--store", store)
    words = found["next"].split()
    assert words[:3] == ["rmqstore", "dump", str(store)]
    run = rmqstore(*words[1:], "--format", "json")
    assert (run.status, run.objects[0]["physical_offset"]) == (0, offset)


def test_many_values_are_counted_and_not_kept() -> None:
    lines = "\n".join(f"found a half message at {number}, it will be truncated." for number in range(100))
    (found,) = _explained(lines)
    assert found["count"] == 100
    assert found["values"] == {"physical_offset": [str(number) for number in range(20)]}
    assert found["lines_with_other_values"] == 80


def test_a_dledger_store_has_its_records_behind_entry_headers(fresh_store: Callable[[str], Path]) -> None:
    (found,) = _explained("found a half message at 48, it will be truncated.", "--store", fresh_store("broker-5.3.3-dledger-clean"))
    assert found["store"][0]["holds"] == "record"


def test_a_line_for_people() -> None:
    run = rmqstore("explain", "2026-11-21", "10:00:00", "WARN", "main", "-", "found", "a", "illegal", "magic", "code", "0xdaa320a6")
    assert run.status == 0
    verdict, text = run.out.split("\n", 1)
    assert verdict == "EXPLAINED 1 line"
    assert text.startswith(
        "error    LOG-MAGIC  1 x WARN, 2026-11-21 10:00:00\n         found a illegal magic code 0x{magic}\n           magic: daa320a6\n"
    )
    assert "next: rmqstore verify STORE --part commitlog\n" in run.out


def test_a_harmless_line_is_explained_when_asked_for() -> None:
    (found,) = _explained("load commit log OK")
    assert (found["code"], found["severity"]) == ("LOG-LOAD-OK", "harmless")


def test_an_exception_alone_is_explained() -> None:
    (found,) = _explained("java.lang.RuntimeException: Lock failed,MQ already started")
    assert (found["code"], found["codes"]) == ("CAUSE-LOCK", ["RMQ-ST-IN-USE"])


def test_a_row_of_the_table_is_explained_by_its_code() -> None:
    (found,) = _explained("log-crc")
    assert (found["code"], found["count"], found["releases"]) == ("LOG-CRC", 0, "all")


def test_an_unknown_line_is_called_unknown() -> None:
    run = rmqstore("explain", "the moon is made of cheese", "--format", "json")
    assert run.status == 1
    (found,) = run.objects
    assert (found["code"], found["severity"], found["next"]) == (None, None, None)
    assert found["meaning"].startswith("Not in the table")
    assert found["candidates"] == []


def test_the_nearest_rows_are_listed_for_a_line_that_fits_none() -> None:
    run = rmqstore("explain", "WARN main - the magic code 0x12 that was found is illegal", "--format", "json")
    assert run.status == 1
    (found,) = run.objects
    assert found["code"] is None
    assert found["candidates"][0]["code"] in ("LOG-MAGIC", "LOG-MAGIC-END", "LOG-MAGIC-V2")
    scores = [candidate["score"] for candidate in found["candidates"]]
    assert scores == sorted(scores, reverse=True)
    assert "alike: LOG-MAGIC" in rmqstore("explain", "WARN main - the magic code 0x12 that was found is illegal").out


def test_control_characters_of_a_log_do_not_reach_the_terminal() -> None:
    run = rmqstore("explain", "2026-11-21 10:00:00 ERROR main - evil \x1b[2J line")
    assert "\x1b" not in run.out
    assert "evil \\x1b[2J line" in run.out


def test_more_than_one_store_is_a_usage_error(tmp_path: Path) -> None:
    assert rmqstore("explain", "--log", tmp_path / "x", "a", "b").status == 2
    assert rmqstore("explain", "--log", tmp_path / "x", "a", "--store", "b").status == 2


def test_csv_has_one_row_per_kind_of_line() -> None:
    run = rmqstore("explain", "found a illegal magic code 0x0", "--format", "csv")
    header, row = run.out.splitlines()
    assert header.startswith("type,code,level,severity,template,")
    assert row.startswith("log_line,LOG-MAGIC-END,,info,found a illegal magic code 0x{magic},")
