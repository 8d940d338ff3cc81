"""How many modules are beside each other in a package."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
MOST = 20


def test_no_package_is_larger_than_a_reader_can_survey() -> None:
    """`formats` and `commands` have one module per format and per command."""
    sizes = {path.relative_to(REPOSITORY): len(list(path.glob("*.py"))) for path in (REPOSITORY / "rmqstore").rglob("*") if path.is_dir()}
    assert len([size for size in sizes.values() if size]) > 20
    assert {str(path): size for path, size in sizes.items() if size > MOST} == {}
