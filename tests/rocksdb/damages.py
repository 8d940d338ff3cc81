"""Damages of one RocksDB database, by name: DATABASE_DAMAGES["manifest-half"](root / "consumequeue").

SST files are named by their length in the undamaged database: the longest one holds the entries, the shortest one the offsets.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

Damage = Callable[[Path], None]
STEPS = 16
_NOISE = 300


def current(database: Path) -> Path:
    return database / "CURRENT"


def manifest(database: Path) -> Path:
    return database / current(database).read_text().strip()


def long_sst(database: Path) -> Path:
    """The longest SST file."""
    return max(_tables(database), key=lambda path: (path.stat().st_size, path.name))


def short_sst(database: Path) -> Path:
    """The shortest SST file."""
    return min(_tables(database), key=lambda path: (path.stat().st_size, path.name))


def write_ahead_log(database: Path) -> Path:
    """The newest file of the write-ahead log."""
    return max(database.glob("[0-9]*.log"))


def options(database: Path) -> Path:
    return max(database.glob("OPTIONS-*"))


Choose = Callable[[Path], Path]


def _tables(database: Path) -> list[Path]:
    return sorted(database.glob("*.sst"))


def _remove(chosen: Choose, database: Path) -> None:
    chosen(database).unlink()


def _remove_all(pattern: str, database: Path) -> None:
    for path in database.glob(pattern):
        path.unlink()


def _resize(chosen: Choose, numerator: int, denominator: int, database: Path) -> None:
    path = chosen(database)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * numerator // denominator])


def _shorten(chosen: Choose, count: int, database: Path) -> None:
    path = chosen(database)
    path.write_bytes(path.read_bytes()[:-count])


def _flip(chosen: Choose, step: int, database: Path) -> None:
    """Change one bit in the middle of one of `STEPS` equal pieces."""
    path = chosen(database)
    data = bytearray(path.read_bytes())
    data[len(data) * (2 * step + 1) // (2 * STEPS)] ^= 0x10
    path.write_bytes(data)


def _noise(chosen: Choose, database: Path) -> None:
    path = chosen(database)
    data = bytearray(path.read_bytes())
    begin = len(data) // 3
    noise = Random(5).randbytes(min(_NOISE, len(data) - begin))
    path.write_bytes(data[:begin] + noise + data[begin + len(noise) :])


def _append(chosen: Choose, database: Path) -> None:
    with chosen(database).open("ab") as stream:
        stream.write(Random(6).randbytes(_NOISE))


def _write(chosen: Choose, data: bytes, database: Path) -> None:
    chosen(database).write_bytes(data)


def _stray_table(database: Path) -> None:
    shutil.copy(long_sst(database), database / "009999.sst")


def _moved_away(database: Path) -> None:
    """Leave what a repair leaves: IDENTITY and LOCK."""
    for path in database.iterdir():
        if path.is_file() and path.name not in ("IDENTITY", "LOCK"):
            path.unlink()


def _no_current_no_log(database: Path) -> None:
    current(database).unlink()
    _remove_all("*.log", database)


def _intact(database: Path) -> None:
    assert current(database).exists()


DATABASE_DAMAGES: dict[str, Damage] = {
    "intact": _intact,
    "current-missing": partial(_remove, current),
    "current-and-wal-missing": _no_current_no_log,
    "moved-away": _moved_away,
    "current-empty": partial(_write, current, b""),
    "current-wrong": partial(_write, current, b"MANIFEST-999999\n"),
    "current-noise": partial(_write, current, b"\x00\xff no manifest"),
    "manifest-missing": partial(_remove, manifest),
    "manifest-empty": partial(_write, manifest, b""),
    "manifest-half": partial(_resize, manifest, 1, 2),
    "manifest-three-quarters": partial(_resize, manifest, 3, 4),
    "manifest-short": partial(_shorten, manifest, 1),
    "manifest-noise-behind": partial(_append, manifest),
    "options-missing": partial(_remove_all, "OPTIONS-*"),
    "options-noise": partial(_write, options, b"no options"),
    "identity-missing": partial(_remove_all, "IDENTITY"),
    "lock-missing": partial(_remove_all, "LOCK"),
    "wal-missing": partial(_remove_all, "*.log"),
    "wal-noise": partial(_append, write_ahead_log),
    "sst-all-missing": partial(_remove_all, "*.sst"),
    "sst-stray": _stray_table,
}
for _name, _chosen in (("long", long_sst), ("short", short_sst)):
    DATABASE_DAMAGES[f"sst-{_name}-missing"] = partial(_remove, _chosen)
    DATABASE_DAMAGES[f"sst-{_name}-empty"] = partial(_write, _chosen, b"")
    DATABASE_DAMAGES[f"sst-{_name}-short"] = partial(_shorten, _chosen, 1)
    DATABASE_DAMAGES[f"sst-{_name}-noise"] = partial(_noise, _chosen)
for _step in range(STEPS):
    DATABASE_DAMAGES[f"sst-long-flip-{_step:02}"] = partial(_flip, long_sst, _step)
    DATABASE_DAMAGES[f"sst-short-flip-{_step:02}"] = partial(_flip, short_sst, _step)
for _step in range(0, STEPS, 3):
    DATABASE_DAMAGES[f"manifest-flip-{_step:02}"] = partial(_flip, manifest, _step)

WAL_DAMAGES: dict[str, Damage] = {
    "wal-half": partial(_resize, write_ahead_log, 1, 2),
    "wal-short": partial(_shorten, write_ahead_log, 1),
    "wal-noise-inside": partial(_noise, write_ahead_log),
    **{f"wal-flip-{step:02}": partial(_flip, write_ahead_log, step) for step in range(0, STEPS, 5)},
}
"""Damages of a write-ahead log that holds something."""
