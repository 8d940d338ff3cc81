"""What real brokers left behind, stopped or killed, has nothing that verify calls an error."""

from __future__ import annotations

import pytest

from tests.support.cli import rmqstore
from tests.support.stores import case, cases, sample_store

NAMES = [one.name for one in cases()]


@pytest.mark.parametrize("name", NAMES)
def test_no_error_with_the_settings_of_the_broker(name: str) -> None:
    root = sample_store(name)
    check(name, "verify", root, "--format", "json", "--allow-unchecked", *case(name).set_options(root))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", NAMES)
def test_no_error_without_any_settings(name: str) -> None:
    check(name, "verify", sample_store(name), "--format", "json", "--allow-unchecked")


def check(name: str, *arguments: object) -> None:
    run = rmqstore(*map(str, arguments))
    *findings, summary = run.objects

    assert [finding for finding in findings if finding["severity"] == "error"] == []
    assert run.status == 0
    assert (summary["type"], summary["errors"]) == ("summary", 0)
    assert summary["verdict"].startswith("HEALTHY")
    crashed = any(finding["code"] == "RMQ-ST-ABORT" for finding in findings)
    assert crashed == case(name).crashed
