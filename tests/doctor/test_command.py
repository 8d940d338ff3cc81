"""`rmqstore doctor`: what it prints, its exit status, and that the commands it names can be run."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.doctor.diagnosing import FreshStore, damaged
from tests.support.cli import Run, rmqstore
from tests.support.stores import case, sample_store, snapshot

OK, ERRORS, USAGE, REFUSED, FAILED = 0, 1, 2, 3, 4
REPAIRS = {"recover", "rebuild-consumequeue", "rebuild-index", "rebuild-checkpoint"}
CLEAN = "5.3.3-plain"


def doctor(root: Path, *options: str, base: str = CLEAN) -> Run:
    return rmqstore("doctor", root, *case(base).set_options(root), *options)


def commands_of(run: Run) -> list[str]:
    """The next command, and those of the findings."""
    after = [finding["mend"].rpartition("Next: ")[2] for finding in run.objects[:-1]]
    return [command for command in dict.fromkeys([run.objects[-1]["next"], *after]) if command.startswith("rmqstore ")]


def repairs_of(run: Run) -> list[str]:
    """The commands of errors that change the store."""
    errors = [one["mend"].rpartition("Next: ")[2] for one in run.objects[:-1] if one["severity"] == "error"]
    commands = dict.fromkeys([*[run.objects[-1]["next"]], *errors])
    return [
        command
        for command in commands
        if command.startswith("rmqstore ") and shlex.split(command)[1] in REPAIRS and "--dry-run" not in command
    ]


def test_a_clean_store() -> None:
    run = doctor(sample_store(CLEAN), "--broker-version", "5.3.3", "--format", "json")
    assert run.status == OK
    last = run.objects[-1]
    assert last["type"] == "doctor"
    assert (last["broker_version"], last["mode"], last["starts"], last["blockers"]) == ("5.3.3", "normal", True, [])
    assert last["verdict"] == "a broker of 5.3.3 starts without crash recovery, nothing is lost"
    assert last["lost"] == {"messages": 0, "bytes": 0, "uncounted_files": 0, "uncounted_bytes": 0}


def test_people_read_the_verdict_first() -> None:
    run = doctor(sample_store(CLEAN), "--broker-version", "5.3.3")
    assert run.out.splitlines()[0] == "STARTS, NOTHING LOST"
    assert run.out.splitlines()[-1] == "Start the broker."


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


@pytest.mark.sampled(3)
@pytest.mark.parametrize("damage", ["body-flip-last", "cq-tail-zero-5", "file-last-short", "checkpoint-missing", "index-short"])
def test_every_command_it_names_runs(damage: str, fresh_store: FreshStore) -> None:
    root = damaged(fresh_store, CLEAN, damage)
    run = doctor(root, "--broker-version", "5.3.3", "--format", "json")
    commands = commands_of(run)
    assert commands
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "rmqstore"
        before = snapshot(root)
        done = rmqstore(*words)
        asked = "the plan was not confirmed" in done.err
        assert done.status == REFUSED if asked else done.status in (OK, ERRORS), (command, done.err)
        assert not done.crashed, command
        assert snapshot(root) == before


@pytest.mark.sampled(2)
@pytest.mark.parametrize("abort", [False, True])
@pytest.mark.parametrize(
    "damage",
    [
        *("body-flip-last", "body-flip-mid", "garbage-300-mid", "file-missing-middle", "file-last-short", "torn-tail-half"),
        *("cq-queue-removed", "cq-tail-zero-5", "cq-file-last-short", "index-short", "index-all-removed", "checkpoint-missing"),
    ],
)
def test_its_commands_mend_what_it_found(damage: str, abort: bool, fresh_store: FreshStore) -> None:
    root = damaged(fresh_store, CLEAN, damage, abort=abort)
    found = doctor(root, "--broker-version", "5.3.3", "--format", "json")
    repairs = repairs_of(found)
    assert repairs or found.status == OK
    for command in repairs:
        done = rmqstore(*shlex.split(command)[1:], "--yes")
        assert done.status == OK, (command, done.err)

    last = doctor(root, "--broker-version", "5.3.3", "--format", "json")
    assert last.status == OK
    assert last.objects[-1]["starts"] is True
    assert last.objects[-1]["class"] == "STARTS, NOTHING LOST"
    assert repairs_of(last) == []


def test_nothing_is_to_be_changed_where_the_log_is_gone(fresh_store: FreshStore) -> None:
    found = doctor(damaged(fresh_store, CLEAN, "log-emptied"), "--broker-version", "5.3.3", "--format", "json")
    assert found.objects[0]["code"] == "RMQ-CL-EMPTY"
    assert repairs_of(found) == []


def test_a_path_with_a_blank_is_quoted(tmp_path: Path, fresh_store: FreshStore) -> None:
    root = fresh_store(CLEAN).rename(tmp_path / "my store")
    (root / "abort").touch()
    commands = commands_of(doctor(root, "--format", "json"))
    assert commands
    assert {tuple(shlex.split(command)[::2][:2]) for command in commands} == {("rmqstore", str(root))}


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["{missing}"], FAILED, "no such directory"),
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
