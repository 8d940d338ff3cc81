"""The lock of a store: no other process works on it while it changes, and it does not change while another process works on it.

A running broker holds a POSIX record lock on the first byte of `lock` (fact sheet commit log §4.4); `flock` would not see it. The lock
taken here is an open file description lock on the same byte: it conflicts with the broker's both ways, but is not lost when this process
closes another descriptor of the file, as a verification does.

A broker locks only after it has loaded and recovered the store, so processes that have files of the store open are looked for too. A
missing `lock` is created, as a broker would, and never removed: a broker that is starting may have opened it already.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rmqstore.errors import RefusedError, UnreadableError
from rmqstore.formats.lock import LOCK, LOCKED_LENGTH, LOCKED_OFFSET
from rmqstore.repair.files import beneath, rights
from rmqstore.repair.files.writer import Writer
from rmqstore.repair.plan.attributes import attributes_of, like_sibling
from rmqstore.store.liveness import Liveness, liveness, store_users
from rmqstore.store.root import Store

_STOP = "Stop the broker (or the process that uses the store) and try again."
_FLOCK = "hhqqi4x"


@contextmanager
def locked(store: Store, writer: Writer | None = None) -> Iterator[None]:
    """Hold the lock of a store that is going to change, after checking that no other process uses it.

    Raises RefusedError (in use, and by which process), OSError.
    """
    if not beneath.exists(store.lock_path):
        refuse_if_used(store)
        _create(store, writer or Writer())
    with _held(store, demanded=True):
        yield


@contextmanager
def locked_for_reading(store: Store) -> Iterator[None]:
    """Do the same for a store that is only read to plan for it: nothing is created, and a store on a read-only disk is accepted."""
    with _held(store, demanded=False):
        yield


def refuse_if_used(store: Store) -> None:
    """Raise RefusedError if another process has a file of the store open or mapped, or wrote `abort` and may still be alive."""
    with rights.to_see_processes():
        users = store_users(store)
    found = liveness(store, users)
    if found.users:
        processes = ", ".join(f"process {user.pid} ({user.command})" for user in found.users)
        raise RefusedError(f"{store.root} is in use: {processes} has files of it open.", _STOP)
    if _may_be_the_broker(found):
        message = f"{store.root} may be in use: process {found.abort_pid}, which `abort` names, is running and could not be inspected."
        raise RefusedError(message, "Run this as the user of that process, or as root, to see whether it is the broker.")


@contextmanager
def _held(store: Store, *, demanded: bool) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            descriptor = stack.enter_context(beneath.regular_file(store.lock_path, os.O_RDWR))
        except (OSError, UnreadableError, beneath.LinkError) as error:
            if demanded and not _nothing_to_lock(store, error):
                raise
        else:
            _lock(store, descriptor)
        refuse_if_used(store)
        yield


def _nothing_to_lock(store: Store, error: Exception) -> bool:
    """Return whether no broker can hold the lock, or start: there is a directory, a named pipe, a socket, or a dangling link."""
    if isinstance(error, beneath.LinkError):
        return not store.lock_path.exists()  # brokers follow links
    return isinstance(error, UnreadableError) or (isinstance(error, OSError) and error.errno in (errno.EISDIR, errno.ENXIO))


def _may_be_the_broker(found: Liveness) -> bool:
    # Process ids are reused after a restart of the machine: a process that shows its files, and none of the store, is another one.
    return found.abort_pid_alive and found.abort_pid != os.getpid() and not _shows_its_files(found.abort_pid)


def _shows_its_files(pid: int | None) -> bool:
    return os.access(f"/proc/{pid}/fd", os.R_OK | os.X_OK)


def _lock(store: Store, descriptor: int) -> None:
    request = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, LOCKED_OFFSET, LOCKED_LENGTH, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        holder = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, request))[4]
        who = f"process {holder}" if holder > 0 else "another run of rmqstore"
        raise RefusedError(f"{store.root} is in use: {who} holds the lock.", _STOP) from error


def _create(store: Store, writer: Writer) -> None:
    path: Path = store.lock_path
    root = attributes_of(store.root)
    with writer.create(path) as descriptor:
        writer.write(descriptor, path, 0, LOCK.build({}))
        writer.set_attributes(descriptor, path, like_sibling(path, store.root))
        writer.fsync(descriptor, path)
    writer.set_directory_attributes(store.root, root)
