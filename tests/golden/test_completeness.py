"""The sample stores hold every format, every scenario and every release family, and stay small enough for git."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.stores import FAMILIES, SAMPLES, case, cases, sample_store

# format: files of a store that hold it, with something in them
FILES_OF_FORMAT = {
    "message": "commitlog/*",
    "record": "commitlog/*",
    "properties": "commitlog/*",
    "sysflag": "commitlog/*",
    "host": "commitlog/*",
    "message_id": "commitlog/*",
    "delay": "consumequeue/SCHEDULE_TOPIC_XXXX/*/*",
    "consumequeue": "consumequeue/*/*/*",
    "consumequeue_ext": "consumequeue_ext/*/*/*",
    "batchconsumequeue": "batchconsumequeue/*/*/*",
    "index": "index/*",
    "checkpoint": "checkpoint",
    "abort": "abort",
    "lock": "lock",
    "timer": "timerlog/*",
    "dledger": "dledger-*/data/*",
    "compaction": "compaction/compactionLog/*/*/*",
    "rocksdb": "consumequeue/*.sst",
}
# formats that none of the brokers at hand wrote, and why
NOT_IN_A_SAMPLE = {
    "epoch": "written in controller mode only, which needs several brokers",
    "tiered_index": "in the stores of tests/tiered",
    "tiered_segment": "in the stores of tests/tiered",
}
# modules of formats/ that are no file format of their own
TOOLS = {"__init__", "crc", "describe", "indexentry", "javahash", "layout", "multidispatch", "naming", "tiered_names"}
FORMATS = Path(__file__).resolve().parents[2] / "formats"


@pytest.mark.parametrize("format_name", FILES_OF_FORMAT)
def test_the_format_is_in_a_sample(format_name: str) -> None:
    pattern = FILES_OF_FORMAT[format_name]
    assert any(any(path.stat().st_size for path in sample_store(one.name).glob(pattern) if path.is_file()) for one in cases())


def test_every_format_is_accounted_for() -> None:
    modules = {path.stem for path in FORMATS.glob("*.py")}
    assert modules - TOOLS - set(NOT_IN_A_SAMPLE) <= set(FILES_OF_FORMAT)
    assert set(NOT_IN_A_SAMPLE) <= modules


@pytest.mark.parametrize("family", sorted(set(FAMILIES.values())))
@pytest.mark.parametrize("end", ["clean", "crash"])
def test_every_release_family_is_there(family: str, end: str) -> None:
    assert [one for one in cases() if one.family == family and one.data["end"] == end]


SCENARIOS = [
    "batch",
    "batchcq",
    "broker",
    "compressed",
    "cqext",
    "dledger",
    "empty",
    "headless",
    "ipv6",
    "lmq",
    "longtopic",
    "manyfiles",
    "multipath",
    "plain",
    "propcrc",
    "rocksdb",
    "schedule",
    "transactions",
    "transientpool",
]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_is_there(scenario: str) -> None:
    assert [one for one in cases() if scenario in one.name.split("-")]


def test_every_compression_is_there() -> None:
    kinds = {line["sysFlag"] >> 8 & 7 for line in case("5.5.1-compressed").truth() if line["sysFlag"] & 1}
    assert kinds == {0, 1, 2, 3}


def test_the_ground_truth_is_whole() -> None:
    for one in cases():
        assert len(one.truth()) == one.data["lines"], one.name


def test_the_folder_stays_small() -> None:
    assert sum(path.stat().st_size for path in SAMPLES.rglob("*") if path.is_file()) < 15_000_000
