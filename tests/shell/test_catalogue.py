"""The catalogue is complete, well formed, and used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rmqstore.catalogue import CATALOGUE, Entry, finding
from rmqstore.catalogue.releases import ALL, GENERATIONS, R5X
from rmqstore.findings import Severity

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"RMQ-(?:CL|CQ|CM|IX|CP|TM|CF|RD|DL|TI|ST)(?:-[A-Z]+)+")


def _codes_in(*folders: str, without: str | None = None) -> set[str]:
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py") if without is None or without not in path.parts]
    return {code for path in files for code in CODE.findall(path.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=CATALOGUE)
def test_entry_is_well_formed(entry: Entry) -> None:
    assert CODE.fullmatch(entry.code)
    assert entry.title and not entry.title.endswith(".")
    assert entry.meaning.endswith(".")
    assert entry.mend.strip().endswith(".")
    assert entry.broker
    for releases, text in entry.broker.items():
        assert releases in (ALL, R5X, *GENERATIONS)
        assert text.endswith(".")


def test_no_code_stands_in_the_catalogue_twice() -> None:
    codes = [
        code
        for path in (ROOT / "rmqstore" / "catalogue").glob("*.py")
        for code in re.findall(r'^ {8}"(RMQ-[A-Z-]+)",$', path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(codes) > 50
    assert sorted(codes) == sorted(CATALOGUE)


def test_a_crash_never_makes_a_finding_worse() -> None:
    rank = list(Severity)
    worse = [e.code for e in CATALOGUE.values() if rank.index(e.severity_in(crashed=True)) > rank.index(e.severity_in(crashed=False))]
    assert worse == []


def test_every_code_in_the_sources_is_in_the_catalogue() -> None:
    unknown_on_purpose = {"RMQ-CL-NOWHERE", "RMQ-CL-CRCX"}
    assert _codes_in("rmqstore", "commands", "tests", "benchmarks") - unknown_on_purpose <= set(CATALOGUE)


def test_every_code_in_the_catalogue_is_used() -> None:
    assert set(CATALOGUE) - _codes_in("rmqstore", "commands", without="catalogue") == set()


def test_what_a_crash_leaves_is_no_error_while_the_broker_crashed() -> None:
    torn_after_crash = finding("RMQ-CL-TORN", "torn", crashed=True)
    torn_after_stop = finding("RMQ-CL-TORN", "torn")
    assert (torn_after_crash.severity, torn_after_stop.severity) == (Severity.WARNING, Severity.ERROR)


def test_damage_is_an_error_after_a_crash_too() -> None:
    assert finding("RMQ-CL-CRC", "wrong", crashed=True).severity is Severity.ERROR


def test_finding_takes_the_mend_of_its_code_unless_a_more_exact_one_is_given() -> None:
    assert finding("RMQ-ST-OWNER", "two owners").mend == CATALOGUE["RMQ-ST-OWNER"].mend
    assert finding("RMQ-ST-OWNER", "two owners", mend="chown rocketmq f").mend == "chown rocketmq f"


def test_a_code_that_is_not_in_the_catalogue_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(KeyError):
        finding("RMQ-CL-NOWHERE", "?")
