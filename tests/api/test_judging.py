"""Findings, predictions, diagnoses and plans of the public interface are those of the commands."""

from __future__ import annotations

import doctest
import json
import os
from pathlib import Path

import pytest

import rmqstore
from rmqstore.errors import RefusedError, UsageError
from rmqstore.jsonschema import with_schema
from tests.support import cli
from tests.support.stores import case, content, fresh_store, sample_store, snapshot

REPOSITORY = Path(__file__).resolve().parents[2]
NAMES = ["5.3.3-plain", "5.3.3-plain-crash", "4.9.8-multipath", "5.5.1-rocksdb"]


@pytest.mark.parametrize("name", NAMES)
def test_as_the_commands_say(name: str) -> None:
    root = sample_store(name)
    store = rmqstore.open(root, settings=case(name).settings(root))
    options = [*case(name).set_options(root), "--format", "json"]
    verified = cli.rmqstore("verify", root, "--all", *options)
    verification = store.verify()
    assert [with_schema(one.as_json()) for one in verification] == verified.objects[:-1]
    assert verification.verdict == verified.objects[-1]["verdict"]
    assert verification.healthy == (verified.status == 0)
    assert len(verification.errors) == verified.objects[-1]["errors"]

    predicted = cli.rmqstore("recover", root, "--dry-run", *options).objects[0]
    prediction = store.predict()
    assert json.loads(json.dumps(prediction.details)).items() <= predicted.items()
    assert (prediction.release, prediction.starts) == (predicted["broker_version"], predicted["starts"])

    diagnosed = cli.rmqstore("doctor", root, *options)
    diagnosis = store.diagnose()
    assert diagnosis.details.keys() == diagnosed.objects[-1].keys()
    assert (diagnosis.headline, diagnosis.next) == (diagnosed.objects[-1]["headline"], diagnosed.objects[-1]["next"])
    assert diagnosis.nothing_lost == (diagnosed.status == 0)


def test_a_plan_is_looked_at_applied_and_undone(tmp_path: Path) -> None:
    root = fresh_store("5.3.3-plain", tmp_path)
    settings = case("5.3.3-plain").settings(root)
    with (root / "commitlog" / "00000000000000000000").open("r+b") as stream:
        stream.write(b"none" * 50)
    (root / "consumequeue" / "Orders" / "0" / "00000000000000000000").unlink()
    before = snapshot(root), content(root)
    store = rmqstore.open(root, settings=settings)
    assert store.verify().errors

    plan = store.plan_recover("5.3.3")
    assert (snapshot(root), content(root)) == before
    assert not plan.empty
    assert [one.physical_offset for one in plan.lost] == [0]
    assert "commitlog/00000000000000000000" in {action.path for action in plan.actions}

    applied = plan.apply()
    assert applied.errors == {}
    assert applied.transaction is not None
    assert not store.verify().errors
    assert rmqstore.open(root, settings=settings).plan_recover("5.3.3").empty
    with pytest.raises(UsageError):
        store.plan_recover("9.9")

    applied.undo()
    assert {path: digest for path, digest in content(root).items() if not path.startswith(".rmqstore/")} == before[1]


def test_a_plan_of_a_store_that_changed_is_refused(tmp_path: Path) -> None:
    root = fresh_store("5.3.3-plain", tmp_path)
    path = root / "consumequeue" / "Orders" / "0" / "00000000000000000000"
    path.unlink()
    plan = rmqstore.open(root).plan_recover("5.3.3")
    (root / "checkpoint").write_bytes(bytes(4096))
    with pytest.raises(RefusedError):
        plan.apply()
    assert not path.exists()


def test_notebooks_show_tables() -> None:
    root = sample_store("5.3.3-plain-crash")
    store = rmqstore.open(root)
    for shown in (store, store.verify(), store.predict(), store.diagnose(), store.plan_recover()):
        assert shown._repr_html_().startswith("<table>")
    assert "commitlog" in store._repr_html_()


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every example of docs/python.md prints what the page says."""
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    failed, tried = doctest.testfile(str(REPOSITORY / "docs" / "python.md"), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert tried > 20
    assert failed == 0, os.environ["TMPDIR"]
