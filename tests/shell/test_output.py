"""What the three outputs write, byte for byte."""

from __future__ import annotations

import io
import json
import re

import pytest

from rmqstore.findings import Finding, Severity
from rmqstore.render.output import open_output

FINDING = Finding(
    code="RMQ-CL-CRC",
    severity=Severity.ERROR,
    message="body checksum mismatch",
    file="commitlog/00000000000000000000",
    position=200,
    length=91,
    offset=200,
    topic="Topicä",
    queue_id=3,
    queue_offset=17,
    expected=1,
    found=2,
    mend="restore it",
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _binary_stream() -> tuple[io.BytesIO, io.TextIOWrapper]:
    raw = io.BytesIO()
    return raw, io.TextIOWrapper(raw, encoding="ascii")


def test_json_lines_are_compact_and_keep_characters() -> None:
    stream = io.StringIO()
    output = open_output("json", stream=stream)
    output.rows([{"type": "message", "topic": "Topicä", "properties": {"a": "b"}}])
    output.object({"type": "store", "size": 1})
    output.summary({"records": 2})
    assert stream.getvalue() == (
        '{"type":"message","schema":1,"topic":"Topicä","properties":{"a":"b"}}\n{"type":"store","schema":1,"size":1}\n'
        '{"type":"summary","schema":1,"records":2}\n'
    )


def test_rows_that_are_no_objects_of_the_package_stay_as_they_are() -> None:
    stream = io.StringIO()
    open_output("json", plain=True, stream=stream).rows([{"type": "NORMAL", "topic": "orders"}])
    assert stream.getvalue() == '{"type":"NORMAL","topic":"orders"}\n'


def test_json_of_a_finding_has_every_documented_key() -> None:
    stream = io.StringIO()
    open_output("json", stream=stream).finding(FINDING)
    assert stream.getvalue() == (
        '{"type":"finding","schema":1,"code":"RMQ-CL-CRC","severity":"error","file":"commitlog/00000000000000000000","position":200,'
        '"length":91,"offset":200,"topic":"Topicä","queue_id":3,"queue_offset":17,"message":"body checksum mismatch",'
        '"expected":1,"found":2,"mend":"restore it"}\n'
    )


def test_json_with_a_lone_surrogate_is_valid_utf8_and_reads_back() -> None:
    raw, stream = _binary_stream()
    open_output("json", stream=stream).object({"topic": "a\udc80b"})
    stream.flush()
    assert json.loads(raw.getvalue().decode("utf-8")) == {"topic": "a\udc80b"}


def test_table_with_characters_the_terminal_lacks_is_escaped() -> None:
    raw, stream = _binary_stream()
    open_output("table", stream=stream).rows([{"topic": "ä"}])
    stream.flush()
    assert raw.getvalue() == b"topic\n\\xe4\n"


def test_csv_has_one_header_per_kind_of_row() -> None:
    stream = io.StringIO()
    output = open_output("csv", stream=stream)
    output.rows([{"a": 1, "b": "x,y"}, {"a": None, "b": True}])
    output.rows([{"a": 2, "b": {"k": [1]}}], ["a", "b"])
    output.rows([{"c": 3}])
    output.summary({"records": 3})
    assert stream.getvalue() == 'a,b\n1,"x,y"\n,true\n2,"{""k"":[1]}"\n\nc\n3\n'


def test_csv_of_an_object_is_one_line_per_leaf() -> None:
    stream = io.StringIO()
    open_output("csv", stream=stream).object({"path": "s", "log": {"min": 0, "max": 9}})
    assert stream.getvalue() == "field,value\npath,s\nlog.min,0\nlog.max,9\n"


def test_table_in_a_pipe_is_plain_aligned_and_never_cut() -> None:
    stream = io.StringIO()
    topic = "T" * 300
    open_output("table", stream=stream).rows([{"topic": topic, "size": 7}, {"topic": "b", "size": 1000}])
    assert stream.getvalue() == f"topic{' ' * 295}  size\n{topic}     7\nb{' ' * 299}  1000\n"


def test_table_streams_rows_without_reading_all_first() -> None:
    stream = io.StringIO()
    seen_at_row_100: list[int] = []

    def rows() -> object:
        for number in range(101):
            if number == 100:
                seen_at_row_100.append(stream.getvalue().count("\n"))
            yield {"n": number}

    open_output("table", stream=stream).rows(rows())  # type: ignore[arg-type]
    assert seen_at_row_100 == [101]


def test_table_does_not_let_data_move_the_cursor() -> None:
    stream = io.StringIO()
    open_output("table", stream=stream).rows([{"body": "\x1b[2Ja\nb\u009b"}])
    assert stream.getvalue() == "body\n\\x1b[2Ja\\nb\\x9b\n"


def test_finding_for_people_tells_place_evidence_and_the_mend_once() -> None:
    stream = io.StringIO()
    output = open_output("table", stream=stream)
    output.finding(FINDING)
    output.finding(FINDING)
    first = (
        "error   RMQ-CL-CRC  commitlog/00000000000000000000 @ 200 +91  Topicä/3 #17\n        body checksum mismatch; expected 1; found 2\n"
    )
    assert stream.getvalue() == first + "        fix: restore it\n" + first


def test_colours_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for stream, color, coloured in (
        (Terminal(), "auto", True),
        (io.StringIO(), "auto", False),
        (Terminal(), "never", False),
        (io.StringIO(), "always", True),
    ):
        open_output("table", stream=stream, color=color).finding(FINDING)
        assert ("\x1b[" in stream.getvalue()) is coloured
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    open_output("table", stream=plain).finding(FINDING)
    assert "\x1b[" not in plain.getvalue()


def test_coloured_rows_have_the_width_of_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = io.StringIO()
    open_output("table", stream=stream, color="always").rows([{"topic": "T" * 40, "queue": 1}])
    shown = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert "T" * 38 not in shown and max(map(len, shown.splitlines())) == 40
    monkeypatch.delenv("COLUMNS")
    wide = io.StringIO()
    open_output("table", stream=wide, color="always").rows([{"topic": "T" * 200}])
    assert "T" * 200 in wide.getvalue()


def test_quiet_leaves_the_summary_out_for_people_only() -> None:
    table, lines = io.StringIO(), io.StringIO()
    open_output("table", stream=table, quiet=True).summary({"records": 1})
    open_output("json", stream=lines, quiet=True).summary({"records": 1})
    assert (table.getvalue(), lines.getvalue()) == ("", '{"type":"summary","schema":1,"records":1}\n')


def test_object_for_people_is_a_tree() -> None:
    stream = io.StringIO()
    value = {"store": "s", "commit_log": {"min": 0, "files": 12}, "releases": ["4.9", "5.0"], "parts": [{"a": 1}], "codes": {}}
    open_output("table", stream=stream).object(value)
    assert stream.getvalue() == "store     s\nreleases  4.9, 5.0\ncodes     none\n\ncommit_log\n  min    0\n  files  12\n\nparts\n  1\n"
