"""What to do about a finding: commands that can be pasted, for each error at least one."""

from __future__ import annotations

import re

import pytest

from rmqstore.catalogue import CATALOGUE, finding
from rmqstore.findings import Severity
from rmqstore.verify.advice import spelled_out

ROOT = "/data/a store"
SETTINGS = ("--set", "mappedFileSizeCommitLog=65536")


@pytest.mark.parametrize("code", [code for code, entry in CATALOGUE.items() if entry.severity is Severity.ERROR])
def test_an_error_has_a_command_that_can_be_pasted(code: str) -> None:
    said = (
        spelled_out(finding(code, "message", file="commitlog/0", offset=1, topic="T", queue_id=0, queue_offset=1), ROOT, SETTINGS).mend
        or ""
    )

    commands = re.findall(r"`(rmqstore [^`]*)`", said)
    assert commands
    for command in commands:
        if len(command.split()) > 2 and not command.startswith("rmqstore explain"):
            assert f"'{ROOT}" in command
            assert not {"STORE", "FILE"} & set(command.split())


def test_a_note_needs_none() -> None:
    assert spelled_out(finding("RMQ-CL-CRC", "message", crashed=True), ROOT, ()).mend is not None
    assert spelled_out(finding("RMQ-CQ-EXPIRED", "message"), ROOT, ()).mend == "Nothing."
