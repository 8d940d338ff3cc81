"""The next record after damage: the first bytes after a position show the record that the compiled search finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmqstore.dump.resync import found_by_kernel, found_nearby
from rmqstore.formats import record
from rmqstore.store.mapped import MappedFile
from tests.support.strategies import hostile_files, record_fields

MANY = settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
FAULTS = st.sampled_from(["none", "misplaced", "crc", "size", "magic", "beyond"])


def encoded(fields: dict[str, Any], offset: int, fault: str) -> bytes:
    """Return a record for the offset, or what is almost one."""
    data = bytearray(record.MESSAGE.build({**fields, "physical_offset": offset + (fault == "misplaced")}))
    if fault == "crc":
        data[8] ^= 1
    elif fault == "size":
        data[3] ^= 1
    elif fault == "magic":
        data[7] ^= 1
    elif fault == "beyond":
        data[:4] = (1 << 30).to_bytes(4, "big")
    return bytes(data)


@st.composite
def pieces(draw: st.DrawFn) -> bytes:
    """Noise, records, records with one fault and BLANKs, of which some reach the end of the file."""
    data = draw(st.binary(max_size=200))
    for fields in draw(st.lists(record_fields(), max_size=5)):
        data += encoded(fields, len(data), draw(FAULTS)) + draw(st.binary(max_size=20))
        if draw(st.integers(0, 3)) == 0:
            data += record.BLANK.build({"total_size": draw(st.integers(0, 300)), "magic_code": record.BLANK_MAGIC})
    if draw(st.booleans()):
        rest = draw(st.integers(8, 300))
        data += record.BLANK.build({"total_size": rest + draw(st.sampled_from([0, 0, 1, -1])), "magic_code": record.BLANK_MAGIC})
        data += bytes(rest - 8)
    return data


@given(st.one_of(pieces(), hostile_files()), st.data())
@MANY
def test_first_bytes_and_kernel_agree(tmp_path: Path, content: bytes, data: st.DataObject) -> None:
    path = tmp_path / "00000000000000000000"
    path.write_bytes(content)
    file = MappedFile(path, 0, len(content), len(content))
    for position in data.draw(st.lists(st.integers(0, max(len(content) - 1, 0)), max_size=8)) if content else []:
        assert found_nearby(file, position) in (None, found_by_kernel(file, position))


@given(record_fields(), st.binary(max_size=300).filter(lambda noise: b"\xda" not in noise and b"\xcb" not in noise))
@MANY
def test_a_record_in_the_first_bytes_is_found_without_the_kernel(tmp_path: Path, fields: dict[str, Any], noise: bytes) -> None:
    content = noise + encoded(fields, len(noise), "none")
    path = tmp_path / "00000000000000000000"
    path.write_bytes(content)

    assert found_nearby(MappedFile(path, 0, len(content), len(content)), 0) == len(noise)
