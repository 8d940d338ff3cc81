"""Names in configuration files that a byte or two changed: put right where the rest of the store leaves one answer, else left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import stores
from tests.support.cli import rmqstore

BASE = "broker-5.5.1-crash"


def _recovered(tmp_path: Path, name: str, old: bytes, new: bytes) -> tuple[int, bytes, bytes, set[str]]:
    """Status of a recovery, the file before the damage and after the recovery, the codes of errors that are left."""
    root = stores.fresh_store(BASE, tmp_path)
    path = root / "config" / name
    before = path.read_bytes()
    assert old in before and len(old) == len(new)
    path.write_bytes(before.replace(old, new, 1))
    path.with_name(f"{name}.bak").unlink(missing_ok=True)
    status, errors = _recover(root)
    return status, before, path.read_bytes(), errors


def _recover(root: Path) -> tuple[int, set[str]]:
    """Status of a recovery, and the codes of errors that are left."""
    options = stores.case(BASE).set_options(root)
    done = rmqstore("recover", root, "--yes", "--format", "json", *options)
    verified = rmqstore("verify", root, "--format", "json", *options)
    return done.status, {one["code"] for one in verified.objects if one["type"] == "finding" and one["severity"] == "error"}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("topics.json", b'"writeQueueNums"', b'"writeQueueNuns"'),
        ("topics.json", b'"topicName":"fifo"', b'"topicName":"fyfo"'),
        ("topics.json", b'"fifo":{', b'"fyfo":{'),
        ("subscriptionGroup.json", b'"retryMaxTimes"', b'"retryMa\xf8Times"'),
        ("subscriptionGroup.json", b'"groupName":"g_fail"', b'"groupName":"g_fasl"'),
    ],
)
def test_a_name_with_one_answer_is_put_right(name: str, old: bytes, new: bytes, tmp_path: Path) -> None:
    status, before, after, errors = _recovered(tmp_path, name, old, new)

    assert (status, errors) == (0, set())
    assert after == before


def test_two_names_that_nothing_knows_stay(tmp_path: Path) -> None:
    """Neither name has queues: which one is right is not known, so the error stays, too."""
    status, before, after, errors = _recovered(tmp_path, "topics.json", b'"topicName":"empty"', b'"topicName":"emptb"')

    assert (status, errors) == (1, {"RMQ-CF-NAME"})
    assert after == before.replace(b'"topicName":"empty"', b'"topicName":"emptb"', 1)


@pytest.mark.parametrize("damaged", ["topics.json", "topics.json.bak"])
@pytest.mark.parametrize("old", [b'"topicName":"empty"', b'"empty":{', b'"rmq_sys_SYNC_BROKER_MEMBER_broker-a":{'])
def test_the_other_copy_shows_which_one_is_right(damaged: str, old: bytes, tmp_path: Path) -> None:
    """Whatever begins with rmq_sys_ is a topic of brokers."""
    root = stores.fresh_store(BASE, tmp_path)
    before = (root / "config/topics.json").read_bytes()
    assert old in before
    for name in ("topics.json", "topics.json.bak"):
        (root / "config" / name).write_bytes(
            before.replace(old, old.replace(b"empty", b"emptb").replace(b"MEMBER", b"MEmBER"), 1) if name == damaged else before
        )

    assert _recover(root) == (0, set())

    assert {(root / "config" / name).read_bytes() for name in ("topics.json", "topics.json.bak")} == {before}
