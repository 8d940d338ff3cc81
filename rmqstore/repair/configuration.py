"""Plans for the configuration: sound backups in the place of broken files, and offsets that lie in their queues.

A group whose offset lies behind the end of its queue would never get what arrives until the queue is that long again; one that goes on at
the end misses nothing (observed on 4.9.7 and 5.3.3, fact sheet timer-and-config observed §2).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from rmqstore.formats.naming import LMQ_PREFIX
from rmqstore.repair.builder import PlanBuilder
from rmqstore.store.root import Store
from rmqstore.store.tolerant_json import with_integers
from rmqstore.store.window import read_whole
from rmqstore.verify import config
from rmqstore.verify.units import QueueKey

_BROKEN = (config.State.EMPTY, config.State.NOTHING, config.State.DAMAGED)
Integers = Mapping[tuple[str, ...], int]
Both = tuple[config.Text, config.Text]


def plan_backups(builder: PlanBuilder, store: Store) -> None:
    """Plans to put sound backups in the place of broken files. Raises UnreadableError."""
    _plan(builder, store, _read(store), {}, restores=True)


def plan_configuration(builder: PlanBuilder, store: Store, ends: Mapping[QueueKey, int], *, restores: bool) -> None:
    """As `plan_backups`, if it `restores`, and offsets within their queues; `ends`: of the queues that will not end where they do now."""
    found = _read(store)
    texts = {name: config.in_use(*both) for name, both in found.items()}
    changes: dict[Path, dict[tuple[str, ...], int]] = defaultdict(dict)
    for stored in config.stored_offsets(store, texts) if not store.rocksdb_queues else ():
        if stored.topic.startswith(LMQ_PREFIX):
            continue  # clients set any offset there
        end = ends.get((stored.topic, stored.queue_id))
        end = config.queue_end(store, stored.topic, stored.queue_id) if end is None else end
        if end is not None and stored.offset != stored.within(end):
            changes[stored.path][stored.keys] = stored.within(end)
    _plan(builder, store, found, changes, restores=restores)


def _read(store: Store) -> dict[str, Both]:
    return {name: config.read_both(store.config_path / name) for name in config.FILES}


def _plan(builder: PlanBuilder, store: Store, found: Mapping[str, Both], changes: Mapping[Path, Integers], *, restores: bool) -> None:
    for text, backup in found.values():
        source = config.in_use(text, backup)
        integers = changes.get(source.path, {})
        broken = restores and text.state in _BROKEN
        if broken and source.state is not config.State.WHOLE:
            name = store.relative(text.path)
            builder.note(f"{name} holds nothing that a broker can read, and there is no sound backup; put it back from a copy.")
        elif broken or integers:
            _plan_file(builder, text.path, source.path, integers)


def _plan_file(builder: PlanBuilder, path: Path, source: Path, integers: Integers) -> None:
    """A broken file gets the bytes of its backup, which a broker would read in its place (fact sheet timer §3.2)."""
    data = read_whole(source, source.stat().st_size)
    if integers:
        count = "1 offset lies" if len(integers) == 1 else f"{len(integers)} offsets lie"
        data, reason, code = with_integers(data, integers), f"{count} outside of the queue: brought to its end, or to 0", "RMQ-CF-OFFSET"
    else:
        reason, code = "it cannot be read, its backup can", "RMQ-CF-JSON"
    if path.exists():
        builder.replace(path, data, reason=reason, code=code)
    else:
        builder.create(path, data, reason=reason, code=code, like=source)
