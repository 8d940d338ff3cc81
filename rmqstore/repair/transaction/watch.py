"""The watch for changes to a store other than those of the transaction itself.

Checking every file before every action would cost a product of two large numbers. Each action adds credit for some files instead, and all
of them are checked whenever that is enough: in a small store before every action, in any store at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from rmqstore.repair.files import entries
from rmqstore.repair.plan import fingerprint
from rmqstore.repair.plan.model import Action, FileStamp
from rmqstore.repair.plan.paths import Places

_FILES_PER_ACTION = 2


class Watch:
    """Comparison of the store with `files`. Paths of actions that are still to be done are left to these actions."""

    def __init__(self, places: Places, files: Mapping[str, FileStamp], actions: Iterable[Action]) -> None:
        self._places = places
        self._files = dict(files)
        self._pending = Counter(action.path for action in actions)
        self._credit = len(self._files)

    def change(self) -> str | None:
        """Return a change by another process, if it is time to look."""
        self._credit += _FILES_PER_ACTION
        return self.look() if self._credit >= len(self._files) else None

    def look(self) -> str | None:
        """Return a change by another process, None if there is none."""
        self._credit = 0
        now = fingerprint.take(self._places)
        before = {name: stamp for name, stamp in self._files.items() if name not in self._pending}
        return next(fingerprint.differences(before, {name: stamp for name, stamp in now.items() if name not in self._pending}), None)

    def done(self, action: Action) -> None:
        """Note that an action is done: the entry at its path now shall stay."""
        self._pending[action.path] -= 1
        if self._pending[action.path]:
            return
        del self._pending[action.path]
        stamp = fingerprint.stamp(entries.path_of(self._places, action))
        if stamp is None or action.path in fingerprint.LEFT_OUT:
            self._files.pop(action.path, None)
        else:
            self._files[action.path] = stamp
