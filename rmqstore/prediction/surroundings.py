"""Files around the data that a start touches: abort, lock, compaction position, schedule offsets (fact sheet commit log §4.4)."""

from __future__ import annotations

from pathlib import Path

from rmqstore.prediction.blockers import Blocker, BlockerCode
from rmqstore.prediction.changes import Changes
from rmqstore.prediction.compaction import is_readable, rewritten_positions
from rmqstore.prediction.options import Options
from rmqstore.store.access import is_denied
from rmqstore.store.root import Store
from rmqstore.store.window import read_whole
from rmqstore.versions import Profile

_LOCK_TEXT = b"lock"
_LARGEST_CONFIG = 64 << 20


class Surroundings:
    """What is made, rewritten and removed beside the data. `abort`: tried out instead of what lies there."""

    def __init__(self, store: Store, profile: Profile, options: Options, changes: Changes, *, abort: bool | None) -> None:
        self._store = store
        self._profile = profile
        self._options = options
        self._changes = changes
        self.abort_present = store.abort_present if abort is None else abort

    def construct(self) -> None:
        """What the constructor of the store makes before anything is loaded."""
        for directory in (*self._store.commitlog_directories.writable, self._store.root / "consumequeue"):
            self._changes.create_directory(directory)
        if not self._store.lock_path.exists():
            self._changes.create(self._store.lock_path)

    def load_schedule(self, blockers: list[Blocker]) -> bool:
        """Up to 4.9.8 the schedule service is the last part of load."""
        if self._profile.schedule_in_store and self._options.delay_levels is None:
            blockers.append(Blocker(BlockerCode.DELAY_LEVELS, "messageDelayLevel cannot be parsed"))
            return False
        return True

    def lock(self) -> None:
        """`lock` is written."""
        path = self._store.lock_path
        if path.is_file() and not is_denied(path) and read_whole(path, len(_LOCK_TEXT)) != _LOCK_TEXT:
            self._changes.modify(path)

    def create_abort(self, blockers: list[Blocker]) -> bool:
        """The last step of start; from 5.0.0 on a directory in its place makes it fail."""
        if self.abort_present and self._store.abort_path.is_dir() and self._profile.writes_pid_to_abort:
            blockers.append(Blocker(BlockerCode.ABORT_DIRECTORY, "abort is a directory", self._store.abort_path))
            return False
        self.abort_present = True
        return True

    def stop(self, *, started: bool, sound: bool) -> bool:
        """What the stop routine persists, and `abort`, removed if everything went well; whether it is there afterwards."""
        if self._profile.compaction and self._options.enable_compaction:
            self._persist_positions(self._store.root / "compaction" / "position-checkpoint")
        if self._profile.schedule_in_store and started and not self._options.slave:
            self._persist(self._store.config_path / "delayOffset.json")
        if sound and self.abort_present:
            self.abort_present = False
            if self._store.abort_path.is_dir():
                self._changes.delete(self._store.abort_path)
        return self.abort_present

    def _persist(self, path: Path) -> None:
        """`MixAll.string2File` of what was loaded from the file: the file as it was goes to `.bak`, its content stays the same."""
        found = _text(path)
        if found is None:
            self._changes.create(path)
        else:
            self._back_up(path, found)

    def _persist_positions(self, path: Path) -> None:
        """The positions of the compaction, which a release may write otherwise than the one before it."""
        found = _text(path)
        if found is None:
            self._changes.create(path)
            return
        if is_readable(found) or not self._profile.deletes_unreadable_config:
            self._back_up(path, found)
        if rewritten_positions(found, _text(_backup(path)), self._profile) != found:
            self._changes.modify(path)

    def _back_up(self, path: Path, found: bytes) -> None:
        backup = _backup(path)
        kept = _text(backup)
        if kept is None:
            self._changes.create(backup)
        elif kept != found:
            self._changes.modify(backup)


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def _text(path: Path) -> bytes | None:
    return read_whole(path, _LARGEST_CONFIG) if path.is_file() else None
