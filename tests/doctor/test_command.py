"""`rmqstore doctor`: what it prints, its exit status, and that the commands it names can be run."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.doctor.diagnosing import FreshStore, damaged
from tests.support.cli import Run, rmqstore
from tests.support.stores import case, sample_store

OK, ERRORS, USAGE, FAILED = 0, 1, 2, 4
CLEAN = "5.3.3-plain"


def doctor(root: Path, *options: str, base: str = CLEAN) -> Run:
    return rmqstore("doctor", root, *case(base).set_options(root), *options)


def test_a_clean_store() -> None:
    run = doctor(sample_store(CLEAN), "--broker-version", "5.3.3", "--format", "json")
    assert run.status == OK
    last = run.objects[-1]
    assert last["type"] == "doctor"
    assert (last["broker_version"], last["mode"], last["starts"], last["blockers"]) == ("5.3.3", "normal", True, [])
    assert last["verdict"] == "a broker of 5.3.3 starts in normal mode, nothing is lost"
    assert last["lost"] == {"messages": 0, "bytes": 0, "uncounted_files": 0, "uncounted_bytes": 0}


def test_people_read_the_verdict_first() -> None:
    run = doctor(sample_store(CLEAN), "--broker-version", "5.3.3")
    assert run.out.startswith("verdict   a broker of 5.3.3 starts in normal mode, nothing is lost\n")


def test_findings_come_before_the_last_object(fresh_store: FreshStore) -> None:
    run = doctor(damaged(fresh_store, CLEAN, "body-flip-last"), "--format", "json")
    assert run.status == ERRORS
    *findings, last = run.objects
    assert {one["type"] for one in findings} == {"finding"}
    assert (findings[0]["code"], findings[0]["severity"]) == ("RMQ-ST-CUT", "error")
    assert last["severities"]["error"] == sum(one["severity"] == "error" for one in findings)


def test_a_store_that_does_not_start(fresh_store: FreshStore) -> None:
    root = damaged(fresh_store, CLEAN, "file-last-short")
    run = doctor(root, "--format", "json")
    (blocker,) = run.objects[-1]["blockers"]
    assert run.status == ERRORS
    assert (run.objects[-1]["starts"], blocker["code"], blocker["file"]) == (False, "file-length", "commitlog/00000000000000262144")
    assert blocker["log"][0].startswith(f"{root}/commitlog/00000000000000262144\t32768 length not matched")


@pytest.mark.parametrize(
    "damage", ["body-flip-last", "cq-tail-zero-5", "file-last-short", "checkpoint-missing", "index-short", "log-emptied"]
)
def test_every_command_it_names_runs(damage: str, fresh_store: FreshStore) -> None:
    run = doctor(damaged(fresh_store, CLEAN, damage), "--broker-version", "5.3.3", "--format", "json")
    commands = {finding["mend"].rpartition("Next: ")[2] for finding in run.objects[:-1]} | set(run.objects[-1]["next"])
    assert commands
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "rmqstore"
        done = rmqstore(*words)
        assert done.status in (OK, ERRORS), (command, done.err)
        assert not done.crashed, command


def test_a_path_with_a_blank_is_quoted(tmp_path: Path, fresh_store: FreshStore) -> None:
    root = fresh_store(CLEAN).rename(tmp_path / "my store")
    (command,) = doctor(root, "--format", "json").objects[-1]["next"]
    assert shlex.split(command)[:3] == ["rmqstore", "verify", str(root)]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["{missing}"], FAILED, "does not exist"),
        (["{store}/consumequeue"], USAGE, "is only the part consumequeue of a store"),
        (["{store}", "--broker-version", "9.9.9"], USAGE, "9.9.9"),
        (["{store}", "--broker-version", "new"], USAGE, "neither 'auto' nor a release"),
        (["{store}", "--set", "mappedFileSizeCommitLog=x"], USAGE, "a positive number"),
        (["{store}", "--broker-conf", "{missing}"], FAILED, "does not exist"),
        ([], USAGE, "STORE"),
    ],
)
def test_bad_input(words: list[str], status: int, said: str, tmp_path: Path) -> None:
    places = {"missing": tmp_path / "missing", "store": sample_store(CLEAN)}
    run = rmqstore("doctor", *(word.format(**places) for word in words))
    assert (run.status, run.crashed) == (status, False)
    assert said in run.err
