"""Classes that a Java process has loaded, kept for the next one: loading them is most of the start of Spark.

A Java from 25 on keeps them in a cache of ahead-of-time work, an older one in an archive of class data. Either is of use only to the same
Java with the same classes and options, so its name contains a hash of all of them. It is made by a process that does other work, when that
ends, and appears under its name when it is complete. Making it takes some ten seconds. The first start leaves that to the second one, so
that users who start Spark only once do not wait for it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rmqstore.kept import kept_directory
from rmqstore.pipeline.publish import publish

_AHEAD_OF_TIME = 25
"""The first Java that makes such a cache in one step."""
_MOST_KEPT = 4
"""Files of 70 to 190 MB."""
_SEEN = ".seen"


class CdsArchive:
    """The classes of one kind of work of one Java."""

    def __init__(self, java: Path, version: int, jars: Path, options: Sequence[str], kind: str) -> None:
        """`jars` = directory of the classes; `options` = those of Java; `kind` of work."""
        self._ahead_of_time = version >= _AHEAD_OF_TIME
        directory = kept_directory("java")
        suffix = "aot" if self._ahead_of_time else "jsa"
        # Java reads a colon as the end of a path.
        usable = directory is not None and ":" not in str(directory)
        self._path = directory / f"{kind}-{_mark(java, jars, options)}.{suffix}" if directory is not None and usable else None
        self._attempt = None if self._path is None else self._path.with_suffix(f".{os.getpid()}.part")
        self.are_kept = self._path is not None and self._path.is_file()
        self.are_due = False
        """Whether this Java is to keep its classes."""
        if directory is not None:
            _remove_remains(directory)
        if self._path is not None and not self.are_kept:
            self.are_due = _seen_before(self._path.with_suffix(_SEEN))

    @property
    def option(self) -> list[str]:
        """Return the option to use the kept classes, or to keep them at the end; none at the first start, or without a place for them."""
        if self._path is None or not (self.are_kept or self.are_due):
            return []
        use, keep = ("AOTCache", "AOTCacheOutput") if self._ahead_of_time else ("SharedArchiveFile", "ArchiveClassesAtExit")
        return [f"-XX:{use}={self._path}" if self.are_kept else f"-XX:{keep}={self._attempt}"]

    def keep(self) -> None:
        """Keep the file that Java left at its normal end, and remove the oldest files."""
        if self._path is None or self._attempt is None:
            return
        with suppress(OSError):
            with self._attempt.open("rb") as made:
                os.fsync(made.fileno())
            publish(self._attempt, self._path)
            self._path.with_suffix(_SEEN).unlink(missing_ok=True)
            kept = [path for path in self._path.parent.iterdir() if path.suffix in (".aot", ".jsa")]
            for old in sorted(kept, key=lambda path: path.stat().st_mtime)[:-_MOST_KEPT]:
                old.unlink()

    def forget(self) -> None:
        """Remove the kept classes, because Java failed with them."""
        self.are_kept, self.are_due = False, True
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove the attempt, because Java was stopped."""
        if self._attempt is not None and not self.are_kept:
            with suppress(OSError):
                for remains in self._attempt.parent.glob(f"{self._attempt.name}*"):
                    remains.unlink()


def _seen_before(sign: Path) -> bool:
    """Return whether the file exists already, and create it."""
    try:
        sign.touch(exist_ok=False)
    except FileExistsError:
        return True
    except OSError:
        pass
    return False


def _remove_remains(directory: Path) -> None:
    """Remove attempts of commands that were killed: Java then ended alone and left an unused file."""
    for path in directory.glob("*.part*"):
        pid = path.name.split(".")[1]
        if not Path("/proc", pid).exists():
            with suppress(OSError):
                path.unlink()


def _mark(java: Path, jars: Path, options: Sequence[str]) -> str:
    """Return a hash of the Java, its options and the classes."""
    runtime = java.resolve().parents[1]
    state = hashlib.sha256(f"{runtime} {' '.join(options)}\n".encode("utf-8", "surrogateescape"))
    for file in (runtime / "release", runtime / "lib" / "modules", *sorted(jars.glob("*.jar"))):
        with suppress(OSError):
            status = file.stat()
            state.update(f"{file.name} {status.st_size} {status.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return state.hexdigest()[:16]
