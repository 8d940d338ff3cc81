"""The line that says why a broker does not start is the line that brokers were seen to print."""

from __future__ import annotations

import pytest

from tests.doctor.diagnosing import FreshStore, damaged, diagnosis_of

LENGTH = "length not matched message store config value, please check it manually"
FAILED = "load commit log Failed"
# base, damage, the lines as store.log of that release had them
SEEN = [
    ("4.9.8-plain", "file-foreign-hidden", ["{root}/commitlog/.DS_Store\t7 " + LENGTH, FAILED]),
    ("4.9.8-plain", "file-last-empty", ["{root}/commitlog/00000000000000262144\t0 " + LENGTH, FAILED]),
    ("4.9.8-plain", "totalsize-huge", ["java.lang.OutOfMemoryError: Java heap space"]),
    ("5.3.3-plain", "file-last-short", ["{root}/commitlog/00000000000000262144\t32768 " + LENGTH, FAILED]),
    ("5.3.3-plain", "file-middle-long", ["{root}/commitlog/00000000000000131072\t69632 " + LENGTH, FAILED]),
    ("5.3.3-plain", "cq-file-last-short", ["{root}/consumequeue/%RETRY%group_x/0/00000000000000001600\t380 " + LENGTH]),
    (
        "5.3.3-plain",
        "file-foreign-samesize",
        ["load exception", 'java.lang.NumberFormatException: For input string: "00000000000000000000.bak"'],
    ),
    ("5.3.3-plain", "checkpoint-directory", ["load exception", "java.io.FileNotFoundException: {root}/checkpoint (Is a directory)"]),
    (
        "5.5.1-plain",
        "index-numeric-dir",
        [
            "load file {root}/index/20200101000000000 error",
            "java.io.FileNotFoundException: {root}/index/20200101000000000 (Is a directory)",
        ],
    ),
]


@pytest.mark.parametrize(("base", "damage", "lines"), SEEN)
def test_the_line_of_the_broker(base: str, damage: str, lines: list[str], fresh_store: FreshStore) -> None:
    root = damaged(fresh_store, base, damage)
    found = diagnosis_of(root, base)
    expected = [line.replace("{root}", str(root)) for line in lines]
    assert not found.starts
    assert found.log == ("last shutdown normally", *expected)
    assert found.findings[0].code == "RMQ-ST-NO-START"
    assert expected[0] in found.sentence


def test_a_directory_in_place_of_abort(fresh_store: FreshStore) -> None:
    root = damaged(fresh_store, "5.3.3-plain", "abort-is-directory")
    found = diagnosis_of(root, "5.3.3-plain")
    assert found.log == ("last shutdown abnormally", f"java.io.FileNotFoundException: {root}/abort (Is a directory)")
