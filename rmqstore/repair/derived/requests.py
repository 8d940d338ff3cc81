"""Requests for a rebuild of derived files, their results, and the plan in the making that all planners of a command share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from rmqstore.reading.progress import Advance, silent
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.plan.staging import StagedFile, Staging
from rmqstore.versions import Profile, profile_of

if TYPE_CHECKING:
    from rmqstore.rebuild import IndexResult, Mode, QueueResult, Settings
    from rmqstore.repair.derived.index_ranges import KeyRange
    from rmqstore.scan.walk import Batch
    from rmqstore.verify.queues.spans import QueueKey

Made = dict[str, StagedFile]
"""Files in the staging area by their path below the root of the store."""


@dataclass(frozen=True, slots=True)
class QueueRequest:
    """Queues to build: how, and which; `batch_topics` are topics whose queues are batch queues although no configuration says so.

    Without `ext` no queue has an extension, whatever the settings of the store are.
    """

    mode: Mode
    wanted: Callable[[QueueKey], bool]
    batch_topics: frozenset[str] = frozenset()
    ext: bool = True

    def settings(self, settings: Settings) -> Settings:
        """Return the settings of the store with these topics among the batch topics."""
        ext = settings.enable_consume_queue_ext and self.ext
        return replace(settings, batch_topics=settings.batch_topics | self.batch_topics, enable_consume_queue_ext=ext)


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """Index files to build with the keys of a range of the log, all without one; `follows` as an IndexBuilder takes it."""

    keys: KeyRange | None = None
    follows: tuple[int, int] = (0, 0)

    def touches(self, start: int, end: int) -> bool:
        """Return whether keys of the range can be in [start, end) of the log."""
        return self.keys is None or (self.keys.start < end and (self.keys.stop is None or self.keys.stop >= start))

    def select(self, batches: Iterable[Batch], *, tags: bool) -> Iterable[Batch]:
        """Return the records with keys in the range; `tags`: keys of tags are indexed, too."""
        return batches if self.keys is None else self.keys.select(batches, tags=tags)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The files built from a log: queues if they were asked for, and for each request for index files what it asked for."""

    queues: tuple[QueueResult, Made] | None
    index: Sequence[tuple[IndexResult, Made]]


class Rebuilder(Protocol):
    """A builder in other processes of what `rebuild_derived` builds in this one; it raises the same errors."""

    def rebuild(
        self, planning: Planning, log: FutureLog, profile: Profile, queues: QueueRequest | None, index: Sequence[IndexRequest]
    ) -> Rebuilt:
        """Build as `rebuild_derived` does."""


@dataclass(frozen=True, slots=True)
class Planning:
    """A plan in the making. `advance` receives the progress; `rebuilder` builds queues and index, without it this process."""

    builder: PlanBuilder
    advance: Advance = silent
    rebuilder: Rebuilder | None = None

    @property
    def staging(self) -> Staging:
        """The directory of new files."""
        return self.builder.staging

    @property
    def profile(self) -> Profile:
        """The release of the broker that the plan is for."""
        return profile_of(self.builder.broker_version)
