"""The compiled way and the slow way to the JSON of a log give the same bytes, for sound, odd, damaged and hostile logs."""

from __future__ import annotations

import io
import json
import zlib
from pathlib import Path
from typing import Any

import lz4.frame
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmqstore.dump import fast
from rmqstore.dump.items import write_json
from rmqstore.dump.log import SLOW_RECORDS, LogDump
from rmqstore.dump.request import BodyForm, Filters, Request
from rmqstore.formats import record
from rmqstore.formats.delay import DEFAULT_DELAY_LEVELS
from rmqstore.formats.naming import SCHEDULE_TOPIC
from rmqstore.scan import machinecode
from rmqstore.store.mapped import MappedFile, MappedFileQueue
from tests.scan.samples import encoded
from tests.support.damages import DAMAGES, apply
from tests.support.stores import case, fresh_store
from tests.support.storeview import StoreView
from tests.support.strategies import hostile_files, record_fields

COMPILED = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
EVERYTHING = Request()


def text(files: tuple[MappedFile, ...], request: Request, slow_records: int | None) -> bytes:
    stream = io.BytesIO()
    log = LogDump(files, lambda file: file.path.name, request, DEFAULT_DELAY_LEVELS)
    write_json(log.items(slow_records=slow_records, threads=2), stream)
    return stream.getvalue()


def both_ways(files: tuple[MappedFile, ...], request: Request = EVERYTHING) -> bytes:
    slow = text(files, request, None)
    assert text(files, request, 0) == slow
    return slow


def log_file(directory: Path, data: bytes) -> tuple[MappedFile, ...]:
    path = directory / "00000000000000000000"
    path.write_bytes(data)
    return (MappedFile(path, 0, len(data), len(data)),)


def log_of(fields: list[dict[str, Any]]) -> bytes:
    data = b""
    for one in fields:
        data += record.MESSAGE.build({**one, "physical_offset": len(data)})
    return data


# Pieces of property blocks that readers have rules for: no separator, no name, no value, two separators, repeated and malformed names.
PIECES = st.one_of(
    st.sampled_from(
        [b"", b"\x01", b"a", b"a\x01", b"\x01b", b"a\x01b", b"a\x01b\x01c", b"TAGS\x01x", b"TAGS\x01", b"KEYS\x01k1  k2 \xe9\x94\xae"]
    ),
    st.sampled_from([b"DELAY\x013", b"DELAY\x010", b"DELAY\x01-1", b"DELAY\x0199", b"DELAY\x01x", b"DELAY\x01+2", b"UNIQ_KEY\x01U"]),
    st.tuples(st.binary(max_size=12), st.binary(max_size=12)).map(b"\x01".join),
    st.tuples(st.text(min_size=1, max_size=20), st.text(max_size=40)).map(lambda pair: "\x01".join(pair).encode("utf-8", "surrogatepass")),
)
BLOCKS = st.lists(PIECES, max_size=12).map(b"\x02".join)
TOPICS = st.one_of(
    st.sampled_from([SCHEDULE_TOPIC.encode(), b"", b'a"\\\x00\x1f\x7f']), st.binary(max_size=40), st.text(max_size=30).map(str.encode)
)
ODD_FIELDS = st.builds(lambda fields, topic, block: {**fields, "topic": topic, "properties": block}, record_fields(), TOPICS, BLOCKS)


@given(st.lists(ODD_FIELDS, max_size=5))
@COMPILED
def test_any_topic_and_any_property_block(tmp_path: Path, fields: list[dict[str, Any]]) -> None:
    lines = both_ways(log_file(tmp_path, log_of(fields))).splitlines()

    assert len(lines) == len(fields)
    assert [json.loads(line)["body_length"] for line in lines] == [len(one["body"]) for one in fields]


@given(hostile_files())
@COMPILED
def test_damaged_and_hostile_bytes(tmp_path: Path, data: bytes) -> None:
    both_ways(log_file(tmp_path, data))


@given(st.lists(record_fields(), min_size=1, max_size=8), st.data())
@COMPILED
def test_every_filter(tmp_path: Path, fields: list[dict[str, Any]], data: st.DataObject) -> None:
    log = log_of(fields)
    one = data.draw(st.sampled_from([json.loads(line) for line in text(log_file(tmp_path, log), EVERYTHING, None).splitlines()]))
    wanted = {
        "topic": one["topic"],
        "queue_id": one["queue_id"],
        "queue_offset": one["queue_offset"],
        "from_time": one["store_timestamp"],
        "to_time": one["store_timestamp"],
        "key": one["unique_key"] or (one["keys"] or "x").split(" ")[0],
        "tag": one["tags"],
        "from_offset": one["position"] - data.draw(st.integers(0, 3)),
        "to_offset": one["position"] + data.draw(st.integers(0, 3)),
    }
    chosen = data.draw(st.sets(st.sampled_from(sorted(wanted)), min_size=1, max_size=3))
    body = data.draw(st.sampled_from(BodyForm))
    both_ways(log_file(tmp_path, log), Request(Filters(**{name: wanted[name] for name in chosen}), body=body))


BODIES = [b"", b"text", b'quoted "\\ and \x00\x7f', "ä\u2028日本😀".encode(), b"\xff\x00", b"x" * 5000]


@pytest.mark.parametrize("form", [BodyForm.TEXT, BodyForm.HEX, BodyForm.BASE64])
@pytest.mark.parametrize("unpack", [False, True])
def test_bodies_sound_compressed_and_not_what_the_flag_says(unpack: bool, form: BodyForm, tmp_path: Path) -> None:
    packed = [(zlib.compress(body), 0x301) for body in BODIES] + [(lz4.frame.compress(body), 0x101) for body in BODIES]
    bodies = [(body, 0) for body in BODIES] + packed + [(b"no stream", 0x301), (b"no frame", 0x101), (b"no kind", 0x701)]
    data = b""
    for body, sys_flag in bodies:
        data += encoded(body=body, sys_flag=sys_flag, physical_offset=len(data), properties={"TAGS": "a"})

    lines = both_ways(log_file(tmp_path, data), Request(body=form, decompress=unpack)).splitlines()

    shown = [json.loads(line) for line in lines]
    assert len(shown) == len(bodies)
    if form is BodyForm.HEX:
        assert [bytes.fromhex(one["body"]) for one in shown[: len(BODIES)]] == BODIES
        assert [bytes.fromhex(one["body"]) for one in shown[len(BODIES) : -3]] == (BODIES * 2 if unpack else [body for body, _ in packed])
    assert [one.get("faults") for one in shown[-3:]] == [["compression"] if unpack else None] * 3


@pytest.mark.parametrize("window", [128, 4096])
def test_records_at_the_borders_of_windows(window: int, monkeypatch: pytest.MonkeyPatch, fresh_store: Any) -> None:
    monkeypatch.setattr(fast, "WINDOW", window)
    files = MappedFileQueue.scan(fresh_store("5.3.3-plain") / "commitlog").files

    lines = both_ways(files).splitlines()

    assert sum(b'"type":"message"' in line for line in lines) == len(case("5.3.3-plain").truth())


def test_a_worker_that_piled_up_too_much_hands_over(monkeypatch: pytest.MonkeyPatch, fresh_store: Any) -> None:
    monkeypatch.setattr(fast, "_PILE", 1)

    both_ways(MappedFileQueue.scan(fresh_store("5.3.3-plain") / "commitlog").files)


LOG_DAMAGES = [
    name for name in DAMAGES if name.startswith(("zero", "garbage", "torn", "stale", "blank", "file-", "head", "tail", "total", "body"))
]


@pytest.mark.limited(20)
@pytest.mark.sampled(8)
@pytest.mark.parametrize("damage", LOG_DAMAGES)
def test_every_damage_of_a_log(damage: str, tmp_path: Path) -> None:
    sample = case("5.3.3-plain-crash")
    root = fresh_store(sample.name, tmp_path)
    apply(DAMAGES[damage](StoreView(root, sample.settings(root))), root)

    both_ways(MappedFileQueue.scan(root / "commitlog").files)


@pytest.mark.parametrize(
    ("allocated", "request_", "slow"),
    [
        (8 << 20, Request(), 0),
        (8 << 20, Request(Filters(topic="TopicA")), 0),
        (1 << 20, Request(), SLOW_RECORDS),
        (8 << 20, Request(limit=10), SLOW_RECORDS),
        (8 << 20, Request(Filters(from_offset=8 << 20)), SLOW_RECORDS),
    ],
)
def test_only_large_dumps_begin_with_compiled_code(
    allocated: int, request_: Request, slow: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = MappedFile(tmp_path / "00000000000000000000", 0, 1 << 30, allocated)
    monkeypatch.setattr(machinecode, "is_compiled", lambda: True)

    assert LogDump((file,), str, request_, DEFAULT_DELAY_LEVELS).slow_records() == slow
