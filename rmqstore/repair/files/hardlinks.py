"""Files with several names, as backups made by `cp -al` or `rsync --link-dest` have them: copied before their first change.

The copy is made together with the undo records, before the store changes, and replaces the name in the store by a rename. The
other names keep the old file, so a backup stays as it is.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from rmqstore.errors import RefusedError
from rmqstore.repair.files import beneath
from rmqstore.repair.plan.model import Action
from rmqstore.repair.plan.paths import Places, device

_SHOWN = 5


def is_linked(path: Path) -> bool:
    """Return whether a file has another name. Raises LinkError, OSError."""
    status = beneath.status(path)
    return status is not None and status.st_nlink > 1


def require_one_step(path: Path, folder: Path) -> None:
    """Raise RefusedError if a copy made in `folder` cannot replace `path` by a rename."""
    if device(path) != device(folder):
        here, copy = shlex.quote(str(path)), shlex.quote(f"{path}.copy")
        raise RefusedError(
            f"{path} has other names (hard links), and is on another file system than {folder}, where it would be copied to keep them.",
            f"Copy it there first: `cp -a --sparse=always {here} {copy} && mv {copy} {here}`; the other names keep the old file.",
        )


def notes(actions: Iterable[Action], places: Places) -> Iterator[str]:
    """Yield the notes of a plan on files with several names that its actions change in place."""
    changed = dict.fromkeys(action.path for action in actions if action.in_place)
    linked = [name for name in changed if is_linked(places.path(name))]
    if linked:
        more = f" and {len(linked) - _SHOWN} more" if len(linked) > _SHOWN else ""
        files = f"{', '.join(linked[:_SHOWN])}{more}"
        yield f"Files with other names (hard links, as in a backup by cp -al) are copied before they change; the backup stays: {files}."
