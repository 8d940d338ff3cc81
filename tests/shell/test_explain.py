"""`rmqstore explain`."""

from __future__ import annotations

import csv
import io
import json

import pytest

from rmqstore.catalogue import CATALOGUE
from rmqstore.cli import main


@pytest.mark.parametrize("spelling", ["RMQ-CL-CRC", "rmq-cl-crc", "CL-CRC"])
def test_explains_a_code(spelling: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", spelling]) == 0
    text = capsys.readouterr().out
    assert text.startswith("RMQ-CL-CRC  error  body checksum mismatch\n")
    assert "What a broker does\n  4.9.x       Clean start:" in text
    assert "What to do\n" in text


def test_json_is_one_object_per_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "RMQ-CL-TORN", "RMQ-CP-AHEAD", "--format", "json"]) == 0
    torn, ahead = map(json.loads, capsys.readouterr().out.splitlines())
    assert (torn["type"], torn["code"], torn["severity"], torn["crash_severity"]) == ("explanation", "RMQ-CL-TORN", "error", "warning")
    assert (ahead["code"], ahead["crash_severity"]) == ("RMQ-CP-AHEAD", None)


def test_list_has_every_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--list", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["code"] for row in rows] == list(CATALOGUE)
    assert {row["severity"] for row in rows} == {"info", "warning", "error"}


def test_unknown_code_suggests_and_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "RMQ-CL-CRCX"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: there is no finding code 'RMQ-CL-CRCX'\nhint: did you mean RMQ-CL-CRC")


def test_no_code_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 2
    assert "rmqstore explain --list" in capsys.readouterr().err
