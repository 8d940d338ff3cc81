"""Symbolic links in a store: parts on other disks that no setting names, and links below the parts, which no repair follows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rmqstore.errors import UnreadableError
from rmqstore.findings import Finding
from rmqstore.shellwords import quoted
from rmqstore.store.mapped import Skipped, list_directory
from rmqstore.store.parts import PartKind
from rmqstore.verify.context import Context
from rmqstore.verify.guard import limited

_CODE = "RMQ-ST-LINK"
_BELOW = "Replace the link by the file or directory itself."


def check(context: Context) -> Iterator[Finding]:
    """Yield findings about links. Looks at names and kinds of all entries, also in directories on other disks that settings name."""
    store = context.store
    parts = store.part_links()
    for link in store.unnamed_links():
        wanted = f"{link.setting}={link.target}"
        message = f"{link.path.name} is a symbolic link to {link.target}, which no setting names"
        advice = f"If that directory belongs to the store, name it: --set {quoted(wanted)}, or the same in broker.conf."
        yield context.finding(_CODE, message, file=link.path, expected=wanted, mend=advice)
    known = {store.path_of(PartKind.TOOL), *(link.path for link in parts)}
    for top in (store.root, *(link.path for link in parts if link.named is not None)):
        found = (_below(context, path) for path in _links(top) if path not in known)
        yield from limited(context, top, found)


def _below(context: Context, path: Path) -> Finding:
    try:
        target = os.readlink(path)  # noqa: PTH115  -- as it is written there
    except OSError as error:
        target = f"what cannot be read ({error.strerror})"
    return context.finding(_CODE, f"{path.name} is a symbolic link to {target}", file=path, found=target, mend=_BELOW)


def _links(top: Path) -> Iterator[Path]:
    """Yield every link below a directory, by directory and name; links are not followed, and the tool's own directory is left out."""
    pending = [str(top)]
    while pending:
        try:
            entries = list_directory(pending.pop(), skips=Skipped.NOTHING)
        except UnreadableError:
            continue  # what cannot be listed is a finding of the owners and modes
        pending += [entry.path for entry in reversed(entries) if entry.name != PartKind.TOOL and entry.is_dir(follow_symlinks=False)]
        yield from (Path(entry.path) for entry in entries if entry.is_symlink())
