"""Every page is done word for word on the store that its header describes: what it says comes, and the store is sound afterwards."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rmqstore.formats.sysflag import SysFlag
from rmqstore.prediction.changes import Change
from rmqstore.prediction.whatif import compare, parse_variants
from rmqstore.repair.transaction.folder import transactions
from rmqstore.store.root import Store
from tests.runbooks import pages
from tests.runbooks.machine import Machine
from tests.runbooks.pages import PAGES, UNDO
from tests.support.cli import rmqstore
from tests.support.stores import content, snapshot
from tests.support.verifying import DATA_PARTS, errors, verify

ROOT = pages.DIRECTORY.parents[1]
OWN = ".rmqstore"
"""Where transactions are kept; the only thing that may be left behind in a store."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_done_word_for_word(path: Path, tmp_path: Path) -> None:
    page = pages.read(path)
    machine = Machine(page, tmp_path)
    first, *others = page.blocks
    machine.run(first)
    before = _files(machine.store)

    for block in others:
        if block.section == UNDO:
            _assert_sound(machine)
        _assert_shown(block.shown, machine.run(block))

    assert _files(machine.store) == before


def test_the_repair_that_the_readme_shows(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("/tmp/store", str(tmp_path / "store"))
    (block,) = (block for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) if "rmqstore recover" in block and "--yes" in block)
    copy, damage, doctor, recover, undo = block.splitlines()
    subprocess.run(["bash", "-euc", f"{copy}\n{damage}"], cwd=ROOT, check=True)
    before = _files(tmp_path / "store")

    triage, repair, way_back = (rmqstore(*shlex.split(line, comments=True)[1:]) for line in (doctor, recover, undo))

    assert (triage.status, repair.status, way_back.status) == (1, 0, 0)
    (thrown_away,), (given_up, kept) = (map(int, re.findall(r"\d+", line.partition("#")[2])) for line in (doctor, recover))
    assert f"discards {thrown_away} messages" in triage.out
    assert f"{given_up} message lost" in repair.out
    assert thrown_away == given_up + kept
    assert _files(tmp_path / "store") == before


def _assert_sound(machine: Machine) -> None:
    """The store verifies, the next start harms nothing, and every message is there that is not listed as lost."""
    root, release = machine.store, machine.variables["RELEASE"]
    assert errors(verify(root, machine.settings, DATA_PARTS)) == []

    store = Store.open(root, settings=machine.settings)
    (start,) = compare(store, parse_variants([], release))
    assert start.outcome.starts
    deleted = [path for path, change in start.outcome.changes.items() if change is Change.DELETED]
    # A start after a crash deletes the last index file and writes its entries again.
    assert [path for path in deleted if not (store.abort_present and path.startswith("index/"))] == []
    assert (start.consequences.queues, start.consequences.index_items_lost) == ((), 0)

    stored, lost = _messages(machine.sample, machine), _lost(root)
    assert [offset for offset in lost if not machine.damaged(offset, stored[offset]["size"])] == []
    assert _messages(root, machine) == {offset: message for offset, message in stored.items() if offset not in lost}


def _messages(root: Path, machine: Machine) -> dict[int, dict[str, Any]]:
    """Every record that belongs into a queue, decoded, by physical offset."""
    settings = machine.case.set_options(root)
    run = rmqstore("dump", root, "--part", "commitlog", "--format", "json", "--body", "base64", "--quiet", *settings)
    return {
        record["physical_offset"]: record
        for record in run.objects
        if record["type"] == "message" and not record["sys_flag"] & SysFlag.TRANSACTION_ROLLBACK
    }


def _lost(root: Path) -> set[int]:
    """The physical offsets of the messages that the transactions of a store list as given up."""
    return {message.physical_offset for one in transactions(root) for message in one.plan.lost if message.physical_offset is not None}


def _assert_shown(shown: Iterable[str], printed: str) -> None:
    """Every shown line stands in the output, in this order; … stands for anything."""
    rest = [" ".join(line.split()) for line in printed.splitlines()]
    for line in shown:
        pattern = re.compile(".*".join(re.escape(" ".join(piece.split())) for piece in line.split("…")))
        while rest and not pattern.search(rest[0]):
            rest.pop(0)
        assert rest, f"not printed, or not in this place: {line}\n{printed}"


def _files(root: Path) -> dict[str, tuple[str, list[int]]]:
    """Content, length, mode and modification time of every file of a store but those of the transactions kept in it."""
    attributes = snapshot(root)
    return {path: (digest, attributes[path]) for path, digest in content(root).items() if not path.startswith(f"{OWN}/")}
