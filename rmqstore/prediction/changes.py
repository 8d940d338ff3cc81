"""Changes of a start to the directory tree: paths that are deleted, created or modified. The only record of writes in the simulation."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from rmqstore.store.entries import exists


class Change(StrEnum):
    """The kind of a change to a path."""

    DELETED = "deleted"
    CREATED = "created"
    MODIFIED = "modified"


class Changes:
    """The tree after the start, compared with the tree on disk. Directories are shown with a trailing `/`."""

    def __init__(self) -> None:
        self._deleted: set[str] = set()
        self._created: dict[str, bool] = {}
        self._modified: set[str] = set()

    def exists(self, path: Path) -> bool:
        """Return whether the path exists at this point of the start."""
        text = str(path)
        return text in self._created or (text not in self._deleted and exists(path))

    def delete(self, path: Path) -> None:
        """Delete a file or an empty directory."""
        text = str(path)
        self._created.pop(text, None)
        self._modified.discard(text)
        self._deleted.add(text)

    def create(self, path: Path) -> None:
        """Create a file, and the directories above it that are missing."""
        self.create_directory(path.parent)
        self._put(path, directory=False)

    def create_directory(self, path: Path) -> None:
        """Create a directory, and those above it that are missing."""
        if self.exists(path):
            return
        self.create_directory(path.parent)
        self._put(path, directory=True)

    def modify(self, path: Path) -> None:
        """Record that the bytes of a file change."""
        self._modified.add(str(path))

    def remove_directory_if_empty(self, path: Path) -> None:
        """Delete a directory that is empty, as `File.delete()` does."""
        if not self.exists(path):
            return
        on_disk = path.iterdir() if path.is_dir() else ()
        left = any(str(entry) not in self._deleted for entry in on_disk)
        if not left and not any(text.startswith(f"{path}/") for text in self._created):
            self.delete(path)

    def _put(self, path: Path, *, directory: bool) -> None:
        text = str(path)
        if text in self._deleted:
            # The file exists again; callers that know its content report whether its bytes differ.
            self._deleted.discard(text)
        else:
            self._created[text] = directory

    def listed(self, root: Path) -> dict[str, Change]:
        """Return the change of every path that ends up different, by path relative to `root` (absolute outside of it)."""
        result: dict[str, Change] = {}
        for text in self._deleted:
            result[_shown(text, root, Path(text).is_dir())] = Change.DELETED
        for text, directory in self._created.items():
            result[_shown(text, root, directory)] = Change.CREATED
        for text in self._modified - self._created.keys() - self._deleted:
            result[_shown(text, root, False)] = Change.MODIFIED
        return dict(sorted(result.items()))


def _shown(text: str, root: Path, directory: bool) -> str:
    path = Path(text)
    shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else text
    return shown + "/" if directory else shown
