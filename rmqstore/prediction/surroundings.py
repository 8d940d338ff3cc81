"""Files other than data that a start touches: abort, lock, compaction position, schedule offsets (fact sheet commit log §4.4)."""

from __future__ import annotations

from pathlib import Path

from rmqstore.prediction.blockers import Blocker, BlockerCode
from rmqstore.prediction.changes import Changes
from rmqstore.prediction.compaction import is_readable, rewritten_positions
from rmqstore.prediction.options import Options
from rmqstore.store.access import is_denied
from rmqstore.store.root import Store
from rmqstore.store.window import read_if_file
from rmqstore.versions import Profile

_LOCK_TEXT = b"lock"
_LARGEST_CONFIG = 64 << 20


class Surroundings:
    """Files other than data that are created, rewritten and removed. `abort`: assumed instead of the real one."""

    def __init__(self, store: Store, profile: Profile, options: Options, changes: Changes, *, abort: bool | None) -> None:
        self._store = store
        self._profile = profile
        self._options = options
        self._changes = changes
        self.abort_present = store.abort_present if abort is None else abort

    def construct(self) -> None:
        """Create what the constructor of the store creates before anything is loaded."""
        if self._profile.creates_directories:
            text = self._store.config.explicit("storePathCommitLog")
            each = text is None or self._profile.creates_each_log_path
            of_log = self._store.commitlog_directories.writable if each else (Path(text or ""),)
            for directory in (*of_log, self._store.root / "consumequeue"):
                self._changes.create_directory(directory)
        if not self._store.lock_path.exists():
            self._changes.create(self._store.lock_path)

    def load_schedule(self, blockers: list[Blocker]) -> bool:
        """Load the schedule service, which is a part of load up to 4.9.8."""
        if self._profile.schedule_in_store and self._options.delay_levels is None:
            blockers.append(Blocker(BlockerCode.DELAY_LEVELS, "messageDelayLevel cannot be parsed"))
            return False
        return True

    def lock(self) -> None:
        """Write `lock`."""
        path = self._store.lock_path
        if not is_denied(path) and read_if_file(path, len(_LOCK_TEXT)) not in (None, _LOCK_TEXT):
            self._changes.modify(path)

    def create_abort(self, blockers: list[Blocker]) -> bool:
        """Create `abort`, the last step of start; from 5.0.0 on it fails if there is a directory of that name."""
        if self.abort_present and self._store.abort_path.is_dir() and self._profile.writes_pid_to_abort:
            blockers.append(Blocker(BlockerCode.ABORT_DIRECTORY, "abort is a directory", self._store.abort_path))
            return False
        self.abort_present = True
        return True

    def stop(self, *, started: bool, sound: bool) -> bool:
        """Persist what the stop routine does and return whether `abort` exists afterwards; it is removed if everything went well."""
        if self._profile.compaction and self._options.enable_compaction:
            self._persist_positions(self._store.root / "compaction" / "position-checkpoint")
        if self._profile.schedule_in_store and self._profile.saves_schedule_at_stop and started and not self._options.slave:
            self._persist(self._store.config_path / "delayOffset.json")
        if sound and self.abort_present:
            self.abort_present = False
            if self._store.abort_path.is_dir():
                self._changes.delete(self._store.abort_path)
        return self.abort_present

    def _persist(self, path: Path) -> None:
        """Rewrite a loaded file as `MixAll.string2File`: the old file becomes `.bak`, the content stays the same."""
        found = read_if_file(path, _LARGEST_CONFIG)
        if found is None:
            self._changes.create(path)
        else:
            self._back_up(path, found)

    def _persist_positions(self, path: Path) -> None:
        """Write the positions of the compaction; the text format may differ between releases."""
        found = read_if_file(path, _LARGEST_CONFIG)
        if found is None:
            self._changes.create(path)
            return
        if is_readable(found) or not self._profile.deletes_unreadable_config:
            self._back_up(path, found)
        if rewritten_positions(found, read_if_file(_backup(path), _LARGEST_CONFIG), self._profile) != found:
            self._changes.modify(path)

    def _back_up(self, path: Path, found: bytes) -> None:
        backup = _backup(path)
        kept = read_if_file(backup, _LARGEST_CONFIG)
        if kept is None:
            self._changes.create(backup)
        elif kept != found:
            self._changes.modify(backup)


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")
