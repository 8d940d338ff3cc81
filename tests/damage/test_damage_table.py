"""Every damage of the table on every base store: found with the right code, at the right place, with the severity of the catalogue."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from rmqstore.catalogue import CATALOGUE
from rmqstore.findings import Finding
from tests.damage import expectations
from tests.damage.expectations import Invisible
from tests.damage.places import matches
from tests.support import stores
from tests.support.damages import DAMAGES, apply
from tests.support.storeview import StoreView
from tests.support.verifying import DATA_PARTS, errors, new_findings, verify

BASES = ["4.9.8-plain", "5.3.3-plain", "5.5.1-plain", "4.9.8-plain-crash", "5.3.3-plain-crash", "5.5.1-plain-crash"]


@functools.cache
def base_view(base: str) -> StoreView:
    root = stores.sample_store(base)
    return StoreView(root, stores.case(base).settings(root))


@functools.cache
def base_findings(base: str) -> list[Finding]:
    root = stores.sample_store(base)
    return verify(root, stores.case(base).settings(root))


def given_store(base: str, damage: str, tmp_path: Path) -> Path:
    root = stores.fresh_store(base, tmp_path)
    apply(DAMAGES[damage](base_view(base)), root)
    return root


def test_every_damage_has_a_row() -> None:
    assert {part for name in DAMAGES for part in name.split("+")} <= set(expectations.TABLE)
    assert set(expectations.TABLE) <= set(DAMAGES)


@pytest.mark.limited(250)
@pytest.mark.sampled(250)
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_the_damage_is_found(damage: str, base: str, tmp_path: Path) -> None:
    if damage != "none" and not DAMAGES[damage](base_view(base)):
        pytest.skip("there is no place for this damage in the store")
    root = given_store(base, damage, tmp_path)

    rows = expectations.rows(damage, base_view(base))
    about_store = any(
        code.startswith("RMQ-ST-") for _, row in rows if not isinstance(row, Invisible) for expected in row for code in expected.codes
    )

    findings = new_findings(base_findings(base), verify(root, stores.case(base).settings(root), () if about_store else DATA_PARTS))

    for scene, row in rows:
        if isinstance(row, Invisible):
            assert not errors(findings), f"expected nothing: {row.reason}"
            continue
        for expected in row:
            fields = expected.place(scene)
            hits = [finding for finding in findings if finding.code in expected.codes and matches(finding, fields)]
            assert hits, f"expected {' or '.join(expected.codes)} with {fields}, found {summary(findings)}"
            for finding in hits:
                assert finding.severity == CATALOGUE[finding.code].severity_in(crashed=(root / "abort").exists())


def summary(findings: list[Finding]) -> list[str]:
    """The findings in short, for the message of a failed test."""
    return [f"{f.code} {f.file} @{f.position} offset={f.offset}+{f.length} {f.topic}/{f.queue_id}/{f.queue_offset}" for f in findings[:30]]
