"""The scanner over whole files: windows, damage and where it goes on behind it, names that outgrow their tables."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmqstore.formats.dledger import END_OF_FILE, ENTRY_HEADER, ENTRY_HEADER_SIZE
from rmqstore.formats.record import BLANK, BLANK_MAGIC, RecordError, decode_record
from rmqstore.scan import walk as scanning
from rmqstore.scan.columns import Check, Fault, Stop
from rmqstore.scan.names import QueueRegistry
from rmqstore.scan.walk import Batch, Damage, FileEnd, LogScanner
from rmqstore.store.mapped import MappedFile
from tests.scan.samples import encoded
from tests.scan.walking import EVERYTHING
from tests.support.strategies import damaged, logs

SMALL_WINDOWS = (64, 97, 128, 1000, 4096)


@dataclass
class Scanned:
    """All events of one scan, with the columns copied."""

    positions: list[int] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)
    queues: list[tuple[str, int]] = field(default_factory=list)
    keys: int = 0
    damages: list[Damage] = field(default_factory=list)
    end: FileEnd | None = None


def scanned(path: Path, data: bytes, *, start: int = 0, scanner: LogScanner | None = None) -> Scanned:
    """The events of a file that holds `data` and begins at physical offset `start`."""
    path.write_bytes(data)
    scanner = scanner or LogScanner(checks=EVERYTHING, delays=[1000])
    result = Scanned()
    for event in scanner.scan(MappedFile(path, start, len(data), len(data))):
        assert result.end is None
        if isinstance(event, Batch):
            result.positions += event.records["position"].tolist()
            result.raw += [event.record_bytes(row) for row in range(len(event.records))]
            result.topics += [scanner.topic(int(number)) for number in event.records["topic"]]
            result.queues += [scanner.queue(int(number)) for number in event.records["queue"]]
            result.keys += len(event.keys)
        elif isinstance(event, Damage):
            result.damages.append(event)
        else:
            result.end = event
    return result


def log(bodies: Sequence[bytes], *, start: int = 0, length: int | None = None, topics: Sequence[bytes] = ()) -> bytes:
    """Records with these bodies; with a `length` the file is closed by its BLANK."""
    data = b""
    for number, body in enumerate(bodies):
        data += encoded(physical_offset=start + len(data), body=body, topic=topics[number] if topics else b"TopicA")
    if length is not None:
        data += BLANK.build({"total_size": length - len(data), "magic_code": BLANK_MAGIC})
        data = data.ljust(length, b"\0")
    return data


# What stands behind a damage, found slowly


def plausible(data: bytes, position: int, origin: int) -> bool:
    """A record whose lengths are consistent, which says it stands here, with the CRC of its body."""
    try:
        found = decode_record(data, position)
    except RecordError:
        return False
    return found.physical_offset == origin + position and found.body_crc == zlib.crc32(found.body) & 0x7FFFFFFF


def goes_on_at(data: bytes, behind: int, origin: int) -> int | None:
    """First position behind `behind` of a plausible record or of the BLANK that is exactly the rest of the file."""
    for position in range(behind + 1, len(data) - 7):
        size, magic = int.from_bytes(data[position : position + 4], "big"), int.from_bytes(data[position + 4 : position + 8], "big")
        if magic == BLANK_MAGIC and size == len(data) - position:
            return position
        if plausible(data, position, origin):
            return position
    return None


def expected_damages(data: bytes, origin: int) -> tuple[list[int], list[tuple[int, int, bool]], int]:
    """(positions of records, damages as (start, end, resumed), position of the end), by reading record after record."""
    positions: list[int] = []
    damages: list[tuple[int, int, bool]] = []
    at = 0
    while True:
        try:
            size = decode_record(data, at).size
        except RecordError as error:
            closing = error.reason == "blank" and int.from_bytes(data[at : at + 4], "big", signed=True) == len(data) - at
            nothing = error.reason in ("end_of_data", "truncated") and not any(data[at:])
            if closing or nothing:
                return positions, damages, at + origin
            found = goes_on_at(data, at, origin)
            if found is None:
                damages.append((at + origin, origin + (len(data[at:].rstrip(b"\0")) + at), False))
                return positions, damages, at + origin
            damages.append((at + origin, found + origin, True))
            at = found
        else:
            positions.append(at + origin)
            at += size


def expect(path: Path, data: bytes, origin: int) -> Scanned:
    positions, damages, end = expected_damages(data, origin)
    result = scanned(path, data, start=origin)
    assert result.positions == positions
    assert [(damage.start, damage.end, damage.resumed) for damage in result.damages] == damages
    assert result.end is not None
    assert result.end.position == end
    return result


@given(damaged(logs()), st.sampled_from(SMALL_WINDOWS))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damage_and_where_it_ends(tmp_path: Path, data: bytes, window: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scanning, "WINDOW", window)
        expect(tmp_path / "log", data, 0)


@pytest.mark.parametrize("window", [*SMALL_WINDOWS, 8 << 20])
def test_random_overwrites_of_a_closed_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(scanning, "WINDOW", window)
    generator = random.Random(window)
    origin = 1 << 33
    sound = log([generator.randbytes(generator.randrange(60)) for _ in range(20)], start=origin, length=4096)
    for _ in range(12):
        data = bytearray(sound)
        for _ in range(generator.randint(1, 4)):
            at = generator.randrange(len(data))
            data[at : at + 40] = generator.choice([bytes(40), generator.randbytes(40), data[200:240]])[: len(data) - at]
        expect(tmp_path / "log", bytes(data), origin)


@pytest.mark.parametrize("window", SMALL_WINDOWS)
def test_records_on_both_sides_of_a_window_border(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(scanning, "WINDOW", window)
    data = log([b"x" * (number * 7 % 50) for number in range(60)], length=9000)

    result = expect(tmp_path / "log", data, 0)

    assert len(result.positions) == 60
    assert b"".join(result.raw) == data[: result.end.position]
    assert result.end == FileEnd(sum(map(len, result.raw)), Stop.BLANK)


def test_records_larger_than_the_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "WINDOW", 256)
    data = log([b"a" * 3000, b"b", b"c" * 10_000, b"d" * 257], length=20_000)

    result = expect(tmp_path / "log", data, 0)

    assert len(result.positions) == 4
    assert result.damages == []


def test_damage_in_front_of_a_record_larger_than_the_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "WINDOW", 256)
    data = bytearray(log([b"a" * 100, b"b" * 5000, b"c"], length=8000))
    data[4] ^= 0xFF

    result = expect(tmp_path / "log", bytes(data), 0)

    assert len(result.positions) == 2
    assert result.damages[0].reason is Stop.ILLEGAL_MAGIC


def test_a_file_can_be_entered_at_a_record(tmp_path: Path) -> None:
    data = log([b"a", b"b", b"c"], start=5000)
    (tmp_path / "log").write_bytes(data)
    size = len(data) // 3
    scanner = LogScanner(checks=EVERYTHING)

    batch = next(scanner.scan(MappedFile(tmp_path / "log", 5000, len(data), len(data)), start=5000 + size))

    assert isinstance(batch, Batch)
    assert batch.records["position"].tolist() == [5000 + size, 5000 + 2 * size]


@pytest.mark.parametrize(
    ("data", "end"),
    [(b"", Stop.TRUNCATED), (bytes(7), Stop.TRUNCATED), (bytes(8), Stop.END_OF_DATA), (bytes(100_000), Stop.END_OF_DATA)],
)
def test_files_without_records(tmp_path: Path, data: bytes, end: Stop) -> None:
    result = scanned(tmp_path / "log", data)

    assert result.positions == []
    assert result.damages == []
    assert result.end == FileEnd(0, end)


def test_a_blank_ends_the_search_behind_a_damage(tmp_path: Path) -> None:
    data = bytearray(log([b"a", b"b"], length=1000))
    second = len(log([b"a"]))
    blank = len(log([b"a", b"b"]))
    data[second + 4] ^= 1
    data[blank + 8 : blank + 8 + second] = encoded(physical_offset=blank + 8)[:second]

    result = scanned(tmp_path / "log", bytes(data))

    assert result.positions == [0]
    assert [(damage.start, damage.end) for damage in result.damages] == [(second, blank)]
    assert result.end == FileEnd(blank, Stop.BLANK)


def test_a_blank_that_does_not_tell_the_rest_of_the_file_is_damage(tmp_path: Path) -> None:
    data = bytearray(log([b"a"], length=1000))
    blank = len(log([b"a"]))
    data[blank : blank + 4] = (1000 - blank - 1).to_bytes(4, "big")

    result = scanned(tmp_path / "log", bytes(data))

    assert [(damage.start, damage.end, damage.reason, damage.resumed) for damage in result.damages] == [
        (blank, blank + 8, Stop.BLANK, False)
    ]
    assert result.damages[0].claimed_size == 999 - blank


def test_more_topics_queues_and_keys_than_the_tables_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "QueueRegistry", lambda: QueueRegistry(8))
    scanner = LogScanner(checks=EVERYTHING)
    names = [f"Topic{number}".encode() for number in range(300)]
    data = b""
    for number in range(900):
        data += encoded(physical_offset=len(data), topic=names[number % 300], queue_id=number % 7, queue_offset=0)

    result = scanned(tmp_path / "log", data, scanner=scanner)

    assert result.topics == [f"Topic{number % 300}" for number in range(900)]
    assert result.queues == [(f"Topic{number % 300}", number % 7) for number in range(900)]
    assert scanner.queue_count == len({(number % 300, number % 7) for number in range(900)})


def test_topics_keep_their_numbers_over_files(tmp_path: Path) -> None:
    scanner = LogScanner(checks=Check(0))
    first = scanned(tmp_path / "a", log([b"", b""], topics=[b"A", b"B"]), scanner=scanner)
    second = scanned(tmp_path / "b", log([b"", b""], topics=[b"C", b"B"]), scanner=scanner)

    assert (first.topics, second.topics) == (["A", "B"], ["C", "B"])
    assert scanner.queue_count == 3


def test_a_record_with_more_keys_than_a_batch_holds(tmp_path: Path) -> None:
    many = " ".join("k" for _ in range(16_000))
    data = encoded(properties={"KEYS": many}) * 4

    result = scanned(tmp_path / "log", data)

    assert (len(result.positions), result.keys) == (4, 64_000)


def test_the_number_of_a_queue_that_no_record_names(tmp_path: Path) -> None:
    scanner = LogScanner(checks=Check(0))
    number = scanner.number_of("%LMQ%a", 0)

    assert scanner.queue(number) == ("%LMQ%a", 0)
    assert scanner.number_of("%LMQ%a", 0) == number
    assert scanned(tmp_path / "a", log([b""], topics=[b"%LMQ%a"]), scanner=scanner).topics == ["%LMQ%a"]


def test_long_topics_with_the_same_end_or_the_same_start(tmp_path: Path) -> None:
    topics = [prefix * length + b"x" * 32 for length in (1, 8, 9, 60, 95) for prefix in (b"a", b"b")]
    topics += [b"y" * length + suffix for length in (7, 31, 32, 33, 100) for suffix in (b"a", b"b", b"")]
    result = scanned(tmp_path / "log", log([b""] * 2 * len(topics), topics=topics * 2))

    assert result.topics == [topic.decode() for topic in topics * 2]
    assert len(set(result.queues)) == len(set(topics))


def entries(records: Sequence[bytes], start: int = 0) -> bytes:
    """Records of one length in DLedger entries, from physical offset `start` on."""
    data = b""
    for number, record in enumerate(records):
        header = {"magic": 1, "size": ENTRY_HEADER_SIZE + len(record), "index": number, "term": 1, "pos": start + len(data)}
        data += ENTRY_HEADER.build({**header, "channel": 0, "chain_crc": 0, "body_crc": 0, "body_len": len(record)}) + record
    return data


def test_records_in_dledger_entries(tmp_path: Path) -> None:
    size = ENTRY_HEADER_SIZE + len(encoded())
    places = [5000 + number * size + ENTRY_HEADER_SIZE for number in range(4)]
    data = bytearray(entries([encoded(physical_offset=place) for place in places], 5000))
    data[2 * size] ^= 1  # the magic of the third header
    data[3 * size + 31] ^= 1  # the position that the fourth says it has
    data += END_OF_FILE.build({"magic": -1, "size": 300}).ljust(300, b"\0")
    scanner = LogScanner(checks=EVERYTHING, lead=ENTRY_HEADER_SIZE)
    (tmp_path / "log").write_bytes(data)

    events = []
    for event in scanner.scan(MappedFile(tmp_path / "log", 5000, len(data), len(data))):
        rows = event.records[["position", "faults"]].tolist() if isinstance(event, Batch) else [event]
        events += rows

    end = 5000 + 4 * size
    assert events == [
        (places[0], 0),
        (places[1], 0),
        Damage(5000 + 2 * size, 5000 + 3 * size, Stop.ILLEGAL_MAGIC, True, size),
        (places[3], int(Fault.PHYSICAL_OFFSET)),
        FileEnd(end, Stop.BLANK),
    ]
