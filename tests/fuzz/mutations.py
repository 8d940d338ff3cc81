"""Random changes to the files of a tree that know what is in them: borders of fields and units, values in JSON, names that are numbers.

A mutation depends on the tree and the random numbers alone. Each says in a few words what it did.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from tests.support.operations import SPECIAL_FILES, Special

Mutation = Callable[[Random, Path, Path], str]
"""Changes a file of the tree; returns what it did."""

_LARGEST_READ = 8 << 20
_INTEGERS = (0, 1, -1, 127, 128, 255, 256, 32767, -32768, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1, -(2**63))
_WIDTHS = (1, 2, 4, 8)
_BORDERS = (1, 4, 8, 20, 46, 512, 4096)
_LENGTHS = (1, 3, 8, 20, 64, 512, 4096)


def mutate(random: Random, root: Path) -> str:
    """Change one thing below `root`, each directory below it being as likely as another; what was done."""
    files = [path for path in sorted(root.rglob("*")) if stat.S_ISREG(path.lstat().st_mode)]
    if not files:
        return "nothing left to change"
    areas = sorted({path.relative_to(root).parts[0] for path in files})
    area = random.choice(areas)
    path = random.choice([path for path in files if path.relative_to(root).parts[0] == area])
    of_json = _is_json(path) and random.random() < 0.7
    kind = random.choice(_OF_JSON if of_json else _OF_BYTES)
    return f"{path.relative_to(root).as_posix()!r}: {kind(random, root, path)}"


# ---- bytes


def _read(path: Path) -> bytearray:
    with path.open("rb") as stream:
        return bytearray(stream.read(_LARGEST_READ))


def _place(random: Random, data: bytes | bytearray) -> int:
    """A position in the part of a file that is used, often at a border of a field, unit or page."""
    used = max(1, len(bytes(data).rstrip(b"\0")))
    border = random.choice(_BORDERS)
    return min(random.randrange(used + 1) // border * border, max(0, len(data) - 1))


def _flip(random: Random, root: Path, path: Path) -> str:
    data = _read(path)
    if not data:
        return "empty, nothing to flip"
    places = [_place(random, data) for _ in range(random.choice((1, 1, 2, 16)))]
    for place in places:
        data[place] ^= 1 << random.randrange(8)
    _write_over(path, data)
    return f"bits flipped at {places}"


def _integer(random: Random, root: Path, path: Path) -> str:
    data, width = _read(path), random.choice(_WIDTHS)
    place, value = _place(random, data), random.choice(_INTEGERS)
    data[place : place + width] = (value % (1 << 8 * width)).to_bytes(width, "big")
    _write_over(path, data)
    return f"{value} in {width} bytes at {place}"


def _splice(random: Random, root: Path, path: Path) -> str:
    """Bytes of another place of the same or another file over these."""
    others = [other for other in sorted(path.parent.iterdir()) if stat.S_ISREG(other.lstat().st_mode)]
    other = random.choice(others)
    data, source, length = _read(path), _read(other), random.choice(_LENGTHS)
    place, begin = _place(random, data), _place(random, source)
    taken = bytes(source[begin : begin + length])
    data[place : place + len(taken)] = taken
    _write_over(path, data)
    return f"{len(taken)} bytes of {other.name!r} at {begin} written at {place}"


def _noise(random: Random, root: Path, path: Path) -> str:
    data, length = _read(path), random.choice(_LENGTHS)
    place = _place(random, data)
    data[place : place + length] = random.randbytes(min(length, max(0, len(data) - place)))
    _write_over(path, data)
    return f"{length} random bytes at {place}"


def _duplicate_range(random: Random, root: Path, path: Path) -> str:
    """A range stands twice; what follows moves up, and the file grows."""
    data, length = _read(path), random.choice(_LENGTHS)
    place = _place(random, data)
    path.write_bytes(data[: place + length] + data[place:])
    return f"{length} bytes at {place} doubled"


def _cut_range(random: Random, root: Path, path: Path) -> str:
    data, length = _read(path), random.choice(_LENGTHS)
    place = _place(random, data)
    path.write_bytes(data[:place] + data[place + length :])
    return f"{length} bytes at {place} cut out"


def _truncate(random: Random, root: Path, path: Path) -> str:
    length = random.choice((0, 1, 3, path.stat().st_size // 2, max(0, path.stat().st_size - 1), _place(random, _read(path))))
    os.truncate(path, length)
    return f"cut to {length} bytes"


def _extend(random: Random, root: Path, path: Path) -> str:
    length = path.stat().st_size + random.choice((1, 20, 512, 65536, 1 << 30))
    os.truncate(path, length)
    return f"extended to {length} bytes"


def _swap(random: Random, root: Path, path: Path) -> str:
    others = [
        other for other in sorted(root.rglob(random.choice((path.name, "*")))) if stat.S_ISREG(other.lstat().st_mode) and other != path
    ]
    if not others:
        return "no other file to swap with"
    other = random.choice(others)
    aside = path.with_name(f"{path.name}.aside")
    path.rename(aside)
    other.rename(path)
    aside.rename(other)
    return f"swapped with {other.relative_to(root).as_posix()!r}"


def _duplicate_file(random: Random, root: Path, path: Path) -> str:
    number = f"{int(path.name) + random.choice((1, 400, 65536)):020d}" if path.name.isdecimal() else f"{path.name}.bak"
    copy = path.with_name(random.choice((number, f"{path.name}.bak", "copy of a file", "-1", "9" * 20, "9" * 40)))
    if not copy.exists():
        shutil.copy2(path, copy)
    return f"copied to {copy.name!r}"


def _delete(random: Random, root: Path, path: Path) -> str:
    path.unlink()
    return "deleted"


def _special(random: Random, root: Path, path: Path) -> str:
    """Something else in the place of the file, of its directory, or beside it."""
    kind = random.choice(SPECIAL_FILES)
    places = [path, path.with_name("beside")] + ([path.parent] if path.parent != root else [])
    place = random.choice(places)
    Special(place.relative_to(root).as_posix(), kind).apply(root)
    return f"{kind} at {place.relative_to(root).as_posix()!r}"


def _mode(random: Random, root: Path, path: Path) -> str:
    mode = random.choice((0, 0o200, 0o4755, 0o7777))
    path.chmod(mode)
    return f"mode {mode:o}"


def _mtime(random: Random, root: Path, path: Path) -> str:
    seconds = random.choice((0, -1, 1, 2**31, 2**33, 10**10))
    os.utime(path, (seconds, seconds))
    return f"changed at {seconds}"


def _write_over(path: Path, data: bytes | bytearray) -> None:
    """New bytes at the beginning; a longer file keeps its length and its holes."""
    with path.open("r+b") as stream:
        stream.write(data)


_OF_BYTES: tuple[Mutation, ...] = (
    *(_flip, _flip, _integer, _integer, _integer, _splice, _splice, _noise, _duplicate_range, _cut_range),
    *(_truncate, _extend, _swap, _duplicate_file, _delete, _special, _special, _mode, _mtime),
)


# ---- JSON


def _is_json(path: Path) -> bool:
    """By name, or because it looks so: the broker's own files have no ending everywhere."""
    if path.stat().st_size > _LARGEST_READ:
        return False
    return path.suffix in (".json", ".jsonl", ".bak") or path.read_bytes()[:1] in (b"{", b"[")


def random_json(random: Random, depth: int = 0) -> Any:
    """Any value, huge and strange ones preferred."""
    simple: tuple[Any, ...] = (None, True, False, "", "x" * 100_000, "\x1b[31m\u202e\u2028", "../outside", "\ud800", "0", "1e999", "NaN")
    numbers: tuple[Any, ...] = (*_INTEGERS, 10**30, -(10**30), 1e308, -1e-308, 0.5, float("nan"), float("inf"))
    if depth > 3 or random.random() < 0.6:
        return random.choice((*simple, *numbers))
    if random.random() < 0.5:
        return [random_json(random, depth + 1) for _ in range(random.randrange(4))]
    return {str(random.choice((*simple, *numbers)))[:40]: random_json(random, depth + 1) for _ in range(random.randrange(4))}


def _json_value(random: Random, root: Path, path: Path) -> str:
    """One value somewhere in the JSON becomes another one, is deleted or stands twice."""
    text = path.read_text("utf-8", "replace")
    lines = text.splitlines() if path.suffix == ".jsonl" else [text]
    if not lines:
        return "empty, no JSON"
    number = random.randrange(len(lines))
    try:
        value = json.loads(lines[number])
    except (ValueError, RecursionError):
        return _flip(random, root, path)
    lines[number] = json.dumps(_changed(random, value))
    path.write_text("\n".join(lines) + "\n" * (path.suffix == ".jsonl"))
    return f"another JSON value in line {number}"


def _changed(random: Random, value: Any) -> Any:
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(sorted(value))
        how = random.random()
        if how < 0.1:
            return {name: part for name, part in value.items() if name != key}
        if how < 0.2:
            return {**value, random.choice((f"{key}x", "", "a@b@c", "-1", str(10**30))): value[key]}
        return {**value, key: _changed(random, value[key])}
    if isinstance(value, list) and value and random.random() < 0.9:
        place = random.randrange(len(value))
        how = random.random()
        if how < 0.15:
            return value[:place] + value[place + 1 :]
        if how < 0.3:
            return [*value, value[place]]
        return [*value[:place], _changed(random, value[place]), *value[place + 1 :]]
    if isinstance(value, int) and not isinstance(value, bool) and random.random() < 0.6:
        return random.choice((value + 1, value - 1, -value, value * 2**32, *_INTEGERS))
    return random_json(random)


def _json_anew(random: Random, root: Path, path: Path) -> str:
    path.write_text(json.dumps(random_json(random)))
    return "random JSON"


def _json_broken(random: Random, root: Path, path: Path) -> str:
    """Text that is nearly JSON, or far too deep."""
    texts = (
        "{" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        "{'a':1,}",
        '{"a":1}{"b":2}',
        "\ufeff{}",
        '{"a":' + "9" * 5_000 + "}",
        "null",
        "{1:2}",
        "\0",
    )
    path.write_text(random.choice(texts))
    return "nearly JSON"


_OF_JSON: tuple[Mutation, ...] = (_json_value, _json_value, _json_value, _json_value, _json_anew, _json_broken)
