"""Bodies as text, hex and base64, and the three compressions."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path
from typing import Any

import lz4.frame
import pytest
import zstandard

from rmqstore.dump.bodies import BodyError, decompress
from tests.support.builder import StoreBuilder
from tests.support.cli import rmqstore

PLAIN = "Grüße".encode() * 50
COMPRESSED = {
    0x001: zlib.compress(PLAIN),
    0x101: lz4.frame.compress(PLAIN),
    0x201: zstandard.ZstdCompressor().compress(PLAIN),
    0x301: zlib.compress(PLAIN, 5),
}


def shown(root: Path, *options: str) -> dict[str, Any]:
    run = rmqstore("dump", root, "--format", "json", *options)
    assert run.status == 0, run.err
    return run.objects[0]


@pytest.mark.parametrize("sys_flag", COMPRESSED)
def test_compressed_bodies(tmp_path: Path, sys_flag: int) -> None:
    stored = COMPRESSED[sys_flag]
    StoreBuilder(tmp_path).message(body=stored, sys_flag=sys_flag).build()

    assert shown(tmp_path, "--body", "hex")["body"] == stored.hex()
    unpacked = shown(tmp_path, "--body", "text", "--decompress")
    assert (unpacked["body"], unpacked["body_encoding"]) == (PLAIN.decode(), "text")
    assert "faults" not in unpacked


def test_forms(tmp_path: Path) -> None:
    StoreBuilder(tmp_path).message(body=b"a\xffb").message(body=b"").build()

    assert "body" not in shown(tmp_path)
    assert (shown(tmp_path, "--body", "hex")["body"], shown(tmp_path, "--body", "base64")["body"]) == ("61ff62", "Yf9i")
    as_text = shown(tmp_path, "--body", "text")
    assert (base64.b64decode(as_text["body"]), as_text["body_encoding"]) == (b"a\xffb", "base64")


@pytest.mark.parametrize("sys_flag", [*COMPRESSED, 0x701])
def test_a_body_that_is_not_what_it_says(tmp_path: Path, sys_flag: int) -> None:
    StoreBuilder(tmp_path).message(body=b"no stream", sys_flag=sys_flag).build()

    one = shown(tmp_path, "--body", "text", "--decompress")

    assert (one["body"], one["faults"]) == ("no stream", ["compression"])


@pytest.mark.parametrize("sys_flag", COMPRESSED)
def test_a_cut_stream_is_an_error(sys_flag: int) -> None:
    with pytest.raises(BodyError):
        decompress(COMPRESSED[sys_flag][:-4], sys_flag)


@pytest.mark.parametrize("sys_flag", COMPRESSED)
def test_a_body_that_swells_without_end_is_an_error(sys_flag: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqstore.dump.bodies.LARGEST_BODY", len(PLAIN) - 1)

    with pytest.raises(BodyError):
        decompress(COMPRESSED[sys_flag], sys_flag)
