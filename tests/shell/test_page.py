"""`--html`: the result of doctor and verify as one page."""

from __future__ import annotations

import re
import shutil
from html import unescape
from pathlib import Path

import pytest

from tests.support.cli import rmqstore
from tests.support.stores import case, fresh_store

ROOT = Path(__file__).resolve().parents[2]
STORE = "5.3.3-plain-crash"


def text_of(page: str) -> str:
    return unescape(re.sub(r"<[^>]+>", " ", page))


@pytest.mark.parametrize("output_format", ["table", "json"])
@pytest.mark.parametrize("command", ["doctor", "verify"])
def test_a_page_says_what_the_command_says(command: str, output_format: str, tmp_path: Path) -> None:
    root = fresh_store(STORE, tmp_path)
    log = root / "commitlog" / "00000000000000000000"
    data = bytearray(log.read_bytes())
    data[4] ^= 0xFF
    log.write_bytes(data)
    target = tmp_path / "page.html"

    run = rmqstore(command, root, "--html", target, "--format", output_format, *case(STORE).set_options(root))

    page = target.read_text(encoding="utf-8")
    codes = {one["code"] for one in rmqstore(command, root, "--json", *case(STORE).set_options(root)).objects if one["type"] == "finding"}
    assert run.status == 1
    assert codes
    assert set(re.findall(r"RMQ-[A-Z]+(?:-[A-Z]+)+", text_of(page))) >= codes
    assert str(root) in page
    assert re.search(r"rmqstore \d\S*, 20\d\d-\d\d-\d\d", page)
    assert re.findall(r"(?:src|href|url)\s*[=(]", page) == []
    assert "<script" not in page
    if output_format == "table":
        verdict = run.out.splitlines()[0 if command == "doctor" else -1]
        assert f">{verdict}</h1>" in unescape(page)


def test_names_of_a_store_are_text_and_no_markup(tmp_path: Path) -> None:
    root = fresh_store(STORE, tmp_path)
    shutil.copytree(root / "consumequeue" / "TopicA", root / "consumequeue" / "<b>&amp;")
    target = tmp_path / "page.html"
    rmqstore("verify", root, "--html", target, *case(STORE).set_options(root))
    page = target.read_text(encoding="utf-8")
    assert "<b>&amp;" not in page
    assert "&lt;b&gt;&amp;amp;" in page


def test_a_page_that_cannot_be_written(tmp_path: Path) -> None:
    run = rmqstore("doctor", fresh_store(STORE, tmp_path), "--html", tmp_path / "missing" / "page.html")
    assert run.status == 4
    assert not run.crashed


def test_a_page_is_for_one_store(tmp_path: Path) -> None:
    root = fresh_store(STORE, tmp_path)
    assert rmqstore("doctor", root, root, "--html", tmp_path / "page.html").status == 2


def test_the_picture_of_the_readme_shows_what_the_command_prints() -> None:
    picture = text_of((ROOT / "docs" / "doctor.svg").read_text(encoding="utf-8")).replace("\xa0", " ")
    run = rmqstore("doctor", ROOT / "sample-stores" / STORE / "store", "--broker-version", "5.3.3")
    assert run.out.splitlines()[0] in picture
    assert "http://www.w3.org/2000/svg" in (ROOT / "docs" / "doctor.svg").read_text(encoding="utf-8")
    assert "(docs/doctor.svg)" in (ROOT / "README.md").read_text(encoding="utf-8")
