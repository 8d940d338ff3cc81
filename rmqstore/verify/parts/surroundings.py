"""The surroundings of the data: abort, lock, a running broker, the epoch file, kinds, owners and modes, names no broker knows."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rmqstore.errors import UnreadableError
from rmqstore.findings import Finding
from rmqstore.formats.epoch import EpochFile, parse_epoch_file
from rmqstore.formats.lock import LOCK
from rmqstore.store.access import is_denied
from rmqstore.store.entries import Status
from rmqstore.store.liveness import liveness
from rmqstore.store.mapped import Skipped, list_directory
from rmqstore.store.obstacles import ROOT_FILES, kind_of
from rmqstore.store.parts import PartKind, part_kind
from rmqstore.store.window import read_if_file, read_whole
from rmqstore.verify.context import Context
from rmqstore.verify.guard import guarded, limited
from rmqstore.verify.parts import links

_MARK = LOCK.build({})
_EPOCH_LIMIT = 16 << 20

# Names that a file system or its owner puts into the root of a mount.
_NOT_FOREIGN = frozenset({"lost+found"})


def check(context: Context) -> Iterator[Finding]:
    """Yield findings about the store as a whole. Looks at names, modes and owners of every entry, reads four small files."""
    store = context.store
    if store.only is None:
        yield from guarded(context, store.abort_path, partial(_abort_and_users, context))
        yield from guarded(context, store.lock_path, partial(_lock, context))
        yield from guarded(context, store.root, partial(_root_entries, context))
        yield from guarded(context, store.root, partial(links.check, context))
        yield from _kinds_of_store(context)
        yield from guarded(context, _epoch_path(context), partial(_epoch, context))
        yield from guarded(context, _identity_path(context), partial(_identity, context))
    for top in _trees(context):
        yield from limited(context, top, _permissions(context, top, _usual_owner(top)))


# Marks of a running or crashed broker


def _abort_and_users(context: Context) -> Iterator[Finding]:
    store = context.store
    found = liveness(store)
    if store.abort_present:
        message = "`abort` exists: the broker was killed or crashed, or is running"
        if found.abort_pid is not None:
            state = "a process of that id runs on this machine" if found.abort_pid_alive else "no process of that id runs on this machine"
            message += f"; it was process {found.abort_pid}, {state}"
        yield context.finding("RMQ-ST-ABORT", message, file=store.abort_path, found=found.abort_pid)
    if found.in_use:
        users = ", ".join(f"{user.command} ({user.pid}, {user.files} files)" for user in found.users) or f"process {found.lock_holder}"
        holds = f"process {found.lock_holder} holds its lock" if found.lock_holder is not None else "files are open for writing"
        message = f"the store is in use: {holds}; open in {users}"
        yield context.finding("RMQ-ST-IN-USE", message, file=store.lock_path, found=found.lock_holder)


def _lock(context: Context) -> Iterator[Finding]:
    path = context.store.lock_path
    if not os.path.lexists(path):
        yield context.finding("RMQ-ST-LOCK", "there is no lock file: no broker was ever started here, or it was not copied", file=path)
    elif path.is_file():
        content = read_whole(path, 64)
        if content != _MARK:
            message = f"the lock file contains {content!r} instead of {_MARK!r}"
            yield context.finding("RMQ-ST-LOCK", message, file=path, expected=_MARK.decode(), found=content.decode("latin-1"))


# Names and kinds


def _root_entries(context: Context) -> Iterator[Finding]:
    store = context.store
    logs = {*store.commitlog_directories.writable, *store.commitlog_directories.read_only}
    for entry in list_directory(store.root):
        path = Path(entry.path)
        kind = part_kind(entry.name)
        if path in logs:
            kind = PartKind.COMMITLOG
        if kind is None or kind is PartKind.OTHER:
            if entry.name not in _NOT_FOREIGN:
                yield context.finding("RMQ-ST-FOREIGN", f"no release knows {entry.name} in a store root; all ignore it", file=path)
        elif kind is not PartKind.CHECKPOINT:
            yield from _kind(context, path, directory=kind not in ROOT_FILES)


def _kind(context: Context, path: Path, *, directory: bool) -> Iterator[Finding]:
    wanted, found = "directory" if directory else "file", kind_of(path)
    if found != wanted:
        message = f"{path.name} is a {found}, where a {wanted} should be"
        yield context.finding("RMQ-ST-KIND", message, file=path, expected=wanted, found=found)


def _kinds_of_store(context: Context) -> Iterator[Finding]:
    store = context.store
    if store.rocksdb_queues:
        separate = store.path_of(PartKind.CONSUMEQUEUE_ROCKSDB)
        path = separate if separate.is_dir() else store.path_of(PartKind.CONSUMEQUEUE)
        yield context.finding("RMQ-CQ-ROCKSDB", "the consume queues are kept in RocksDB", file=path)
    if store.dledger is not None:
        message = f"the commit log is that of DLedger member {store.dledger.self_id}"
        yield context.finding("RMQ-ST-DLEDGER", message, file=store.dledger.directory)


# Epoch file


def _epoch_path(context: Context) -> Path:
    configured = context.store.config.text("storePathEpochFile")
    return Path(configured) if configured else context.store.path_of(PartKind.EPOCH)


def _epoch(context: Context) -> Iterator[Finding]:
    path = _epoch_path(context)
    if not path.is_file():
        return
    file, problem = _parse_epoch(path)
    if problem is not None:
        backup = path.with_name(path.name + ".bak")
        state = "missing" if not backup.is_file() else "damaged too" if _parse_epoch(backup)[1] is not None else "whole"
        yield context.finding("RMQ-ST-EPOCH", f"{problem}; {backup.name} is {state}", file=path)
    if file is None:
        return
    if not file.increases:
        yield context.finding("RMQ-ST-EPOCH", "epochs or start offsets do not increase", file=path)
    # After the last file there is no log in any case, also while the log has not been read.
    end = context.log.end_offset or context.store.message_log.max_offset
    beyond = [entry for entry in file.entries if entry.start_offset > end]
    if beyond and context.store.message_log.files:
        message = f"epoch {beyond[0].epoch} begins at {beyond[0].start_offset}, after the end of the log"
        yield context.finding("RMQ-ST-EPOCH", message, file=path, expected=end, found=beyond[0].start_offset)


def _identity_path(context: Context) -> Path:
    configured = context.store.config.text("storePathBrokerIdentity")
    return Path(configured) if configured else context.store.path_of(PartKind.BROKER_IDENTITY)


def _identity(context: Context) -> Iterator[Finding]:
    """Yield findings about the identity of a broker with a controller: `cluster#broker name#id` (fact sheet commit log §8.3)."""
    path, config = _identity_path(context), context.store.config
    text = (read_if_file(path, _EPOCH_LIMIT) or b"").decode("utf-8", "replace")
    if not path.is_file():
        return
    cluster, name, number = [*text.split("#"), "", "", ""][:3]
    if not cluster or not name or not re.fullmatch(r"[0-9]{1,18}", number):
        yield context.finding("RMQ-ST-IDENTITY", f"{path.name} is not `cluster#broker name#id`", file=path)
        return
    for setting, found in (("brokerClusterName", cluster), ("brokerName", name)):
        expected = config.explicit(setting)
        if expected is not None and expected != found:
            message = f"{path.name} is of a broker with {setting} {found}"
            yield context.finding("RMQ-ST-IDENTITY", message, file=path, expected=expected, found=found)


def _parse_epoch(path: Path) -> tuple[EpochFile | None, str | None]:
    """Return the entries, and the first problem that a broker has with them."""
    try:
        file = parse_epoch_file(read_whole(path, _EPOCH_LIMIT))
    except ValueError as error:
        return None, str(error) if not isinstance(error, UnicodeDecodeError) else "the epoch file is not text"
    return file, None if file.checksum_matches else "the checksum of the epoch file does not match its entries"


# Owners and modes


def _trees(context: Context) -> Iterator[Path]:
    """Yield the root, and commit log directories outside of it."""
    store = context.store
    yield store.root
    for path in (*store.commitlog_directories.writable, *store.commitlog_directories.read_only):
        if not path.is_relative_to(store.root) and path.is_dir():
            yield path


def _usual_owner(top: Path) -> int:
    """Return the user most entries belong to."""
    owners = Counter(status.st_uid for _, status in _walk(top) if status is not None)
    return max(owners, key=lambda owner: owners[owner], default=os.getuid())


def _permissions(context: Context, top: Path, owner: int) -> Iterator[Finding]:
    for text, status in _walk(top):
        if status is None:
            path = Path(text)
            yield context.finding("RMQ-ST-UNREADABLE", f"the directory {path.name} cannot be listed", file=path)
            continue
        needed = stat.S_IRWXU if stat.S_ISDIR(status.st_mode) else stat.S_IRUSR | stat.S_IWUSR
        unreadable = stat.S_ISREG(status.st_mode) and not os.access(text, os.R_OK) and is_denied(Path(text))
        if status.st_uid == owner and status.st_mode & needed == needed and not unreadable:
            continue
        path = Path(text)
        if status.st_uid != owner:
            message = f"{path.name} belongs to user {status.st_uid}, most of the store to user {owner}"
            yield context.finding("RMQ-ST-OWNER", message, file=path, expected=owner, found=status.st_uid)
        if status.st_mode & needed != needed:
            found = f"{stat.S_IMODE(status.st_mode):04o}"
            forbidden = "use" if stat.S_ISDIR(status.st_mode) else "read and write"
            message = f"{path.name} has mode {found}: its owner cannot {forbidden} it"
            yield context.finding("RMQ-ST-MODE", message, file=path, expected=f"{needed:04o}", found=found)
        if unreadable:
            yield context.finding("RMQ-ST-UNREADABLE", f"{path.name}: this user has no permission to read it", file=path)


def _walk(top: Path) -> Iterator[tuple[str, os.stat_result | Status | None]]:
    """Yield every file and directory below `top` but links and the tool's own, by directory; None for one that cannot be listed."""
    pending = [str(top)]
    while pending:
        directory = pending.pop()
        try:
            yield directory, os.stat(directory)  # noqa: PTH116  -- the path is a string
            entries = list_directory(directory, skips=Skipped.NOTHING)
        except (OSError, UnreadableError):
            yield directory, None
            continue
        for entry in reversed(entries):
            if entry.is_dir(follow_symlinks=False):
                if entry.name != PartKind.TOOL:
                    pending.append(entry.path)
            elif not entry.is_symlink():
                try:
                    yield entry.path, entry.stat(follow_symlinks=False)
                except OSError:
                    continue  # removed while it was looked at
