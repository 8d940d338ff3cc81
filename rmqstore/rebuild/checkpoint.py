"""The checkpoint that a broker leaves when it stops cleanly on a log (fact sheet commit log §4.5, newer releases §6)."""

from __future__ import annotations

from dataclasses import dataclass

from rmqstore.formats import checkpoint as declared
from rmqstore.formats.layout import fixed_layout
from rmqstore.rebuild.result import IndexResult, QueueResult
from rmqstore.versions import Profile

_FIELDS = tuple(name for name in fixed_layout(declared.CHECKPOINT) if name != "reserved")


@dataclass(frozen=True, slots=True)
class CheckpointValues:
    """The longs of the file in order; times in ms, offsets physical. Those that a release does not know are 0."""

    physic_msg_timestamp: int
    logics_msg_timestamp: int
    index_msg_timestamp: int
    master_flushed_offset: int = 0
    confirm_phy_offset: int = 0
    logics_physical_offset: int = 0

    def encode(self) -> bytes:
        """Return the bytes of the whole file."""
        return bytes(declared.CHECKPOINT.build({name: getattr(self, name) for name in _FIELDS}))


def clean_checkpoint(
    profile: Profile, last_store_timestamp: int, queues: QueueResult, index: IndexResult, *, confirm_phy_offset: int = 0
) -> CheckpointValues:
    """Return what a clean stop leaves: `last_store_timestamp` is that of the last record of the log, 0 without records.

    Only recovery and controllers move the confirm offset, so it does not follow from a log; 0 is what a broker leaves that never recovered.
    """
    known = profile.checkpoint_longs
    return CheckpointValues(
        physic_msg_timestamp=last_store_timestamp,
        logics_msg_timestamp=queues.last_store_timestamp or 0,
        index_msg_timestamp=index.full_until,
        confirm_phy_offset=confirm_phy_offset if known > _FIELDS.index("confirm_phy_offset") else 0,
        logics_physical_offset=(queues.last_physical_offset or 0) if known > _FIELDS.index("logics_physical_offset") else 0,
    )
