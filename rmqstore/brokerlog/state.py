"""Present state of the parts of a store that log lines are about: abort, commit log, checkpoint, lock, disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping

from rmqstore.brokerlog.places import Holds, Place
from rmqstore.catalogue.logline import About
from rmqstore.errors import RmqstoreError
from rmqstore.formats import checkpoint
from rmqstore.store.liveness import liveness
from rmqstore.store.parts import PartKind
from rmqstore.store.root import Store
from rmqstore.store.window import read_whole

_SHOWN_PROBLEMS = 5


def state_of(store: Store, about: About) -> Iterator[Place]:
    """Yield the present state of a part. Never raises because of the content of the store."""
    try:
        yield from _READERS[about](store)
    except (RmqstoreError, OSError) as error:
        reason = error.message if isinstance(error, RmqstoreError) else str(error)
        yield Place(str(about), Holds.UNREADABLE, reason)


def _abort(store: Store) -> Iterator[Place]:
    if store.abort_present:
        yield Place("abort", Holds.FILE, "present: the next start recovers as after a crash", store.relative(store.abort_path))
    elif store.only is None:
        yield Place("abort", Holds.NOTHING, "absent: the next start recovers as after a clean stop")


def _commitlog(store: Store) -> Iterator[Place]:
    log = store.message_log
    if not log.files:
        yield Place("commit log", Holds.NOTHING, "no files")
        return
    problems = [f"{problem.path.name}: {problem.detail}" for problem in store.commitlog.problems()]
    detail = f"{len(log.files)} files, offsets {log.min_offset} to {log.max_offset}"
    if problems:
        more = f" and {len(problems) - _SHOWN_PROBLEMS} more" if len(problems) > _SHOWN_PROBLEMS else ""
        detail += f"; {'; '.join(problems[:_SHOWN_PROBLEMS])}{more}"
    yield Place("commit log", Holds.DIRECTORY, detail, store.relative(log.files[0].path.parent))


def _checkpoint(store: Store) -> Iterator[Place]:
    if not store.covers(PartKind.CHECKPOINT):
        return
    path = store.checkpoint_path
    if not path.is_file():
        yield Place("checkpoint", Holds.NOTHING, "absent")
        return
    fields = checkpoint.parse_checkpoint(read_whole(path, checkpoint.FILE_SIZE))
    used = [f"{name} {value}" for name, value in fields.items() if isinstance(value, int) and value]
    yield Place("checkpoint", Holds.FILE, ", ".join(used) or "all fields are zero", store.relative(path))


def _lock(store: Store) -> Iterator[Place]:
    users = liveness(store)
    if users.in_use:
        pids = sorted({*(user.pid for user in users.users if user.writes), *([users.lock_holder] if users.lock_holder else [])})
        yield Place("lock", Holds.FILE, f"in use now by process {', '.join(map(str, pids))}", store.relative(store.lock_path))
    else:
        yield Place("lock", Holds.FILE, "no process uses the store now", store.relative(store.lock_path))


def _disk(store: Store) -> Iterator[Place]:
    directories = [store.root, *store.commitlog_directories.writable]
    for directory in dict.fromkeys(path for path in directories if path.is_dir()):
        usage = shutil.disk_usage(directory)
        percent = 100 * usage.used // usage.total if usage.total else 0
        yield Place("disk", Holds.DIRECTORY, f"{percent} % used now, {usage.free} bytes free", store.relative(directory))


_READERS: Mapping[About, Callable[[Store], Iterator[Place]]] = {
    About.ABORT: _abort,
    About.COMMITLOG: _commitlog,
    About.CHECKPOINT: _checkpoint,
    About.LOCK: _lock,
    About.DISK: _disk,
}
