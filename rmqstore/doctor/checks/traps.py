"""The traps when another release than the one that wrote the store starts on it, and with settings that are new to its data.

Sources: fact sheet commit log §2.7, §7 (Q8, Q12, Q23), sheet of the newer releases §3, §5, §6. A trap is one row of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rmqstore.findings import Finding
from rmqstore.formats.checkpoint import FILE_SIZE, parse_checkpoint
from rmqstore.prediction.options import Options
from rmqstore.prediction.outcome import Mode, Outcome
from rmqstore.store.kinds.writer import WriterGuess
from rmqstore.store.window import read_if_file
from rmqstore.verify.context import Context
from rmqstore.versions import AbnormalStart, NormalStart, Profile, profile_of, release_key


@dataclass(frozen=True, slots=True)
class Start:
    """The facts that decide whether a trap applies: the store, the releases that can have written it, and the start that was simulated."""

    context: Context
    guess: WriterGuess
    outcome: Outcome

    @property
    def profile(self) -> Profile:
        """The profile of the release that starts."""
        return profile_of(self.outcome.release)

    @property
    def oldest_writer(self) -> Profile | None:
        """The profile of the oldest release that can have written the store, None where nothing is known of it."""
        return _profile_or_none(self.guess.lowest)

    @property
    def newest_writer(self) -> Profile | None:
        """The profile of the newest release that can have written the store."""
        return _profile_or_none(self.guess.highest)

    @property
    def is_downgrade(self) -> bool:
        """Whether the release that starts is older than every one that can have written the store."""
        return release_key(self.outcome.release) < release_key(self.guess.lowest)

    @property
    def is_upgrade(self) -> bool:
        """Whether it is newer than every one that can have written the store."""
        return release_key(self.outcome.release) > release_key(self.guess.highest)

    @property
    def options(self) -> Options:
        """The settings the broker starts with."""
        return Options.of(self.context.store.config)

    def checkpoint(self, field: str) -> int:
        """Return a number of the checkpoint, 0 without the file."""
        path = self.context.store.checkpoint_path
        content = read_if_file(path, FILE_SIZE)
        return 0 if content is None else int(parse_checkpoint(content)[field])


@dataclass(frozen=True, slots=True)
class Trap:
    """One row: when it applies, its text, and the file it is about."""

    applies: Callable[[Start], bool]
    text: str
    file: Callable[[Start], Path | None] = lambda start: None


def _checkpoint_path(start: Start) -> Path:
    return start.context.store.checkpoint_path


def _loses_v2(start: Start) -> bool:
    writer = start.oldest_writer
    return start.is_downgrade and not start.profile.reads_v2 and writer is not None and writer.reads_v2


def _cuts_without_property_crc(start: Start) -> bool:
    return start.profile.verifies_property_crc and start.options.force_verify_prop_crc and start.options.check_crc_on_recover


def _looks_back_too_short(start: Start) -> bool:
    files = len(start.context.store.commitlog.files)
    unknown = start.checkpoint("physic_msg_timestamp") == 0
    limit = start.options.commit_log_recover_max_num
    return start.profile.limits_search and start.outcome.mode is Mode.ABNORMAL and unknown and files > (limit if limit > 0 else 10)


def _shifts(start: Start) -> bool:
    return (
        start.outcome.mode is Mode.NORMAL
        and start.profile.normal_start is NormalStart.NAMED_WITHIN_QUEUES
        and start.outcome.after_start is not None
        and any(queue.shifted for queue in (start.outcome.after_start.queues or {}).values())
    )


def _tags_change(start: Start) -> bool:
    writer = start.newest_writer if start.is_upgrade else start.oldest_writer
    return (start.is_upgrade or start.is_downgrade) and writer is not None and writer.indexes_tags != start.profile.indexes_tags


def _no_logics_offset(start: Start) -> bool:
    return (
        start.is_upgrade
        and start.profile.abnormal_start is AbnormalStart.CHECKED_OFFSET
        and start.checkpoint("logics_physical_offset") == 0
        and start.checkpoint("physic_msg_timestamp") > 0
    )


def _stale_logics_offset(start: Start) -> bool:
    return start.is_downgrade and start.profile.checkpoint_longs < 6 and start.checkpoint("logics_physical_offset") > 0


TRAPS = (
    Trap(
        _loses_v2,
        "4.9.x and 5.0.0 take a record of a topic with more than 127 bytes (version 2, mostly %RETRY% topics) for an illegal magic code: "
        "the log is cut at the first one in the scan range, all later files are deleted",
    ),
    Trap(
        _cuts_without_property_crc,
        "forceVerifyPropCRC is on: the log is cut at the first record in the scan range without property CRC, such as all records that "
        "were stored without enabledAppendPropCRC",
    ),
    Trap(
        _looks_back_too_short,
        "the checkpoint contains no time, and from 5.4.0 on recovery looks back at most commitLogRecoverMaxNum (10) files: messages before "
        "them are not added to queues and index again",
        _checkpoint_path,
    ),
    Trap(
        _shifts,
        "the queues end before the log, and 5.3.2 and 5.3.3 skip the first record after their end: its queue then stays shifted by one",
    ),
    Trap(
        _tags_change,
        "only releases from 5.4.0 on index tags: messages stored before and after the change are found by tag, or are not",
    ),
    Trap(
        _no_logics_offset,
        "the checkpoint has no logicsPhysicalOffset yet: after a crash 5.5.x begins at the file whose first record is not newer than the "
        "queue time, without the margin of 3 s that earlier releases leave",
        _checkpoint_path,
    ),
    Trap(
        _stale_logics_offset,
        "releases before 5.5.0 leave the checkpoint's logicsPhysicalOffset as it is: after a later upgrade and crash the scan begins "
        "farther back than necessary",
        _checkpoint_path,
    ),
)


def check(start: Start) -> Iterator[Finding]:
    """Yield a finding for every trap that this start runs into."""
    way = _way(start)
    for trap in TRAPS:
        if trap.applies(start):
            yield start.context.finding("RMQ-ST-RELEASE", f"{way}{trap.text}", file=trap.file(start), found=start.outcome.release)


def _way(start: Start) -> str:
    if not (start.is_downgrade or start.is_upgrade):
        return ""
    written = f"{start.guess.lowest} or later" if start.is_downgrade else f"{start.guess.highest} or earlier"
    return f"{'downgrade' if start.is_downgrade else 'upgrade'} from {written} to {start.outcome.release}: "


def _profile_or_none(release: str) -> Profile | None:
    from rmqstore.errors import UsageError

    try:
        return profile_of(release)
    except UsageError:
        return None
