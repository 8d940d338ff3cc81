"""The epoch file of the controller mode after a cut: no mastership may begin after the end of the log (fact sheet commit log §8.3)."""

from __future__ import annotations

from dataclasses import replace

from rmqstore.formats.epoch import NO_CHECKSUM, build_epoch_file, epoch_checksum, parse_epoch_file
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.store.parts import PartKind
from rmqstore.store.root import Store
from rmqstore.store.window import read_whole

_LARGEST = 16 << 20


def plan_epoch(builder: PlanBuilder, store: Store, end: int) -> None:
    """Drop the entries that begin at or after `end`, where the log was cut, from the epoch file and its backup.

    A file that cannot be read, or whose checksum is wrong, is left alone. Raises UnreadableError.
    """
    path = store.root / PartKind.EPOCH.value
    for file in (path, path.with_name(path.name + ".bak")):
        if not file.is_file():
            continue
        try:
            epochs = parse_epoch_file(read_whole(file, _LARGEST))
        except ValueError:
            builder.note(f"{store.relative(file)} cannot be read and is left unchanged.")
            continue
        kept = tuple(entry for entry in epochs.entries if entry.start_offset < end)
        if kept == epochs.entries:
            continue
        if not epochs.checksum_matches:
            builder.note(f"{store.relative(file)} does not have the checksum that it stores and is left unchanged.")
            continue
        reason = f"{len(epochs.entries) - len(kept)} epochs began after the end of the log"
        if not kept:
            builder.quarantine(file, reason=reason)
            continue
        checksum = NO_CHECKSUM if epochs.checksum == NO_CHECKSUM else epoch_checksum(kept, epochs.line_separator)
        builder.replace(file, build_epoch_file(replace(epochs, entries=kept, checksum=checksum)), reason=reason)
