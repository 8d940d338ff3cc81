"""The store as it will be after a plan: a directory that is read like a store, although unchanged files are not copied.

Every file has an empty file of its length, time and mode in a temporary directory, and reads of it are redirected to the bytes: of the
store, of the staging area, or, where a plan changes bytes in place, of a copy. Nothing is written into the store.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rmqstore.errors import RefusedError
from rmqstore.kept import private_directory
from rmqstore.repair.files import beneath
from rmqstore.repair.plan.fingerprint import blocks_with_data, descriptor_blocks
from rmqstore.repair.plan.model import Action, ActionKind, Attributes, Contents, Plan
from rmqstore.repair.plan.paths import TOOL_DIRECTORY, Places
from rmqstore.repair.plan.staging import Staging
from rmqstore.store.brokerconf import BrokerConfig
from rmqstore.store.root import Store
from rmqstore.store.window import read_descriptor, redirected

_MARGIN = 16 << 20
_IN_THE_WAY = frozenset({errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENOTEMPTY})
_REPAIR_ALL = "Repair the whole store with `rmqstore recover`: it moves what is in the way out of the store."
_OTHER_PLACE = "Set TMPDIR to a directory with more free space."
_READABLE = stat.S_IRUSR | stat.S_IWUSR


class NoRoomError(RefusedError):
    """The temporary directory cannot hold the twins of the files of a store, or the copies of those that a plan changes in place."""


@contextmanager
def planned_store(plan: Plan, store: Store, staging: Staging) -> Iterator[Store]:
    """Yield the store that `store` will be after `plan`, whose new files are in `staging`.

    Raises NoRoomError, RefusedError if an entry of another kind is in the place of a planned one, LinkError, UnreadableError, OSError.
    """
    try:
        directory = private_directory("rmqstore-planned-")
    except (OSError, RefusedError) as error:
        raise NoRoomError(f"There is no directory for the planned store: {error}.", _OTHER_PLACE) from error
    try:
        tree = _Tree(directory, Places(store), staging)
        try:
            for top in tree.tops:
                tree.mirror(top)
            tree.apply(plan)
        except OSError as error:
            if not Path(error.filename or directory).is_relative_to(directory):
                raise
            if error.errno in _IN_THE_WAY:
                raise RefusedError(f"The plan does not fit the store: {error}.", _REPAIR_ALL) from error
            raise NoRoomError(f"{directory.parent} cannot hold the planned store: {error}.", _OTHER_PLACE) from error
        planned = Store(tree.twin(store.root), _config(store.config, tree), store.only)
        with redirected(tree.redirects), beneath.pinned(Places(planned).tops):
            yield planned
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class _Tree:
    """The temporary directory. Absolute paths of the store are repeated below it, so that relations between directories stay."""

    def __init__(self, base: Path, places: Places, staging: Staging) -> None:
        self.redirects: dict[str, Path] = {}
        self._base = base.resolve()
        self._places = places
        self._staging = staging
        self._inside: set[Path] = set()

    @property
    def tops(self) -> list[Path]:
        """The root and the directories outside of it that belong to the store."""
        return list(dict.fromkeys(self._places.tops.values()))

    def twin(self, path: Path) -> Path:
        """Return the place of an absolute path in the temporary directory."""
        return self._base / path.relative_to("/")

    def _written(self, path: Path) -> Path:
        """Return the twin of a path that is going to be changed. Raises LinkError where links lead out of the temporary directory."""
        target = self.twin(path)
        if target.parent not in self._inside:  # no action makes a link
            if not target.parent.resolve().is_relative_to(self._base):
                raise beneath.LinkError(path)
            self._inside.add(target.parent)
        return target

    def mirror(self, top: Path) -> None:
        """Make the twins of everything below a directory but the folder of transactions."""
        self.twin(top).mkdir(parents=True, exist_ok=True)
        tool = str(self._places.root / TOOL_DIRECTORY)
        times = []
        for text, status in beneath.walk(top, without=Path(tool)):
            path = Path(text)
            target = self.twin(path)
            if text == tool:
                continue
            if stat.S_ISDIR(status.st_mode):
                target.mkdir(exist_ok=True)
                times.append((target, status))
            elif path in self._places.linked:
                target.symlink_to(self.twin(self._places.linked[path]))
            elif stat.S_ISLNK(status.st_mode):
                target.symlink_to(os.readlink(path))  # noqa: PTH115  -- as it is written there
            elif stat.S_ISREG(status.st_mode):
                self._empty(target, status.st_size)
                _like(target, status)
                self.redirects[str(target)] = path
            else:
                os.mkfifo(target)
        for target, status in times:
            os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))

    def apply(self, plan: Plan) -> None:
        """Apply every action of a plan in the temporary directory."""
        changed: defaultdict[str, list[Action]] = defaultdict(list)
        for action in plan.actions:
            if action.in_place:
                changed[action.path].append(action)
        self._require_room(changed)
        for name, actions in changed.items():
            self._change(self._places.root / name, actions)
        for action in plan.actions:
            if not action.in_place:
                self._whole(action)

    def _require_room(self, changed: Mapping[str, list[Action]]) -> None:
        paths = [self._places.root / name for name in changed]
        needed = sum(size for path in paths for _, size in blocks_with_data(path, 0, path.stat().st_size))
        disk = os.statvfs(self._base)
        if disk.f_bavail * disk.f_frsize < needed + _MARGIN:
            raise NoRoomError(
                f"{self._base.parent} has not enough free space for copies of {len(paths)} changed files ({needed} bytes).",
                _OTHER_PLACE,
            )

    def _change(self, path: Path, actions: list[Action]) -> None:
        """Copy a file, and write into the copy."""
        target = self._written(path)
        with beneath.reading(path) as read, target.open("r+b", buffering=0) as copy:
            del self.redirects[str(target)]
            status = os.fstat(read)
            zeros = [(action.position, action.position + action.length) for action in actions if action.kind is ActionKind.ZERO]
            for begin, size in descriptor_blocks(read, path, 0, status.st_size):
                block = _without(read_descriptor(read, path, begin, size), begin, zeros)
                if any(block):  # the copy is sparse
                    os.pwrite(copy.fileno(), block, begin)
            for action in actions:
                if action.contents is not None:
                    for begin, data in self._pieces(action.contents):
                        os.pwrite(copy.fileno(), data, action.position + begin)
        _like(target, status)
        _set(target, actions[-1].attributes)

    def _pieces(self, contents: Contents) -> Iterator[tuple[int, bytes]]:
        """Yield the bytes of contents with their positions."""
        if contents.data is not None:
            yield 0, contents.data
            return
        path = self._staged(contents)
        with beneath.reading(path) as read:
            for begin, size in descriptor_blocks(read, path, 0, contents.length):
                yield begin, read_descriptor(read, path, begin, size)

    def _staged(self, contents: Contents) -> Path:
        assert contents.file is not None
        return self._staging.directory / contents.file

    def _whole(self, action: Action) -> None:
        """Remove a file, or put one in its place."""
        target = self._written(self._places.root / action.path)
        self.redirects.pop(str(target), None)
        target.unlink(missing_ok=True)
        if action.kind is ActionKind.QUARANTINE:
            for directory in reversed(action.directories):
                place = self.twin(self._places.root / directory.path)
                if directory.attributes is None and place.is_dir() and not any(place.iterdir()):
                    place.rmdir()
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        contents = action.contents
        assert contents is not None
        if contents.data is not None:
            target.write_bytes(contents.data)
        else:
            self._empty(target, contents.length)
            self.redirects[str(target)] = self._staged(contents)
        _set(target, action.attributes)

    def _empty(self, target: Path, length: int) -> None:
        with target.open("wb") as stream:
            stream.truncate(length)


def _like(target: Path, status: os.stat_result) -> None:
    target.chmod(stat.S_IMODE(status.st_mode) & 0o777 | _READABLE)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _set(target: Path, attributes: Attributes | None) -> None:
    if attributes is not None:
        target.chmod(attributes.mode & 0o777 | _READABLE)
        if attributes.mtime_ns is not None:
            os.utime(target, ns=(attributes.mtime_ns, attributes.mtime_ns))


def _without(block: bytes, begin: int, zeros: Iterable[tuple[int, int]]) -> bytes:
    """Return a block that begins at `begin` with zeros in ranges of the file."""
    changed = bytearray(block)
    for first, last in zeros:
        low, high = max(first, begin), min(last, begin + len(block))
        if low < high:
            changed[low - begin : high - begin] = bytes(high - low)
    return bytes(changed)


def _config(config: BrokerConfig, tree: _Tree) -> BrokerConfig:
    """Return the settings with paths of the temporary directory in the place of those of the store."""
    tops = sorted(map(str, tree.tops), key=len, reverse=True)
    path = re.compile(rf"(?<![^:;,])({'|'.join(map(re.escape, tops))})(?=[/:;,]|$)")
    given = {key: path.sub(lambda found: str(tree.twin(Path(found[1]))), value) for key, value in config.given.items()}
    return replace(config, given=given)
