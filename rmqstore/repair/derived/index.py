"""Plans that bring the index into agreement with the future log: valid files stay, those between and after them are rebuilt.

Where a file is damaged or missing, the files before and after it show which keys it held. The last file is rebuilt when it has to
continue, so that all keys of the log are found, and no index entry points at what the log does not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rmqstore.catalogue import CATALOGUE
from rmqstore.errors import RefusedError
from rmqstore.formats.index import message_keys
from rmqstore.rebuild import IndexResult, RebuiltIndexFile
from rmqstore.rebuild.index import following_name
from rmqstore.repair.derived.index_ranges import KeyRange, first_border, last_border
from rmqstore.repair.derived.judgement import Judgement
from rmqstore.repair.derived.rebuild import rebuild_derived
from rmqstore.repair.derived.requests import IndexRequest, Made, Planning
from rmqstore.repair.derived.settings_evidence import evidence_of, settings_of
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.plan.staging import StagedFile
from rmqstore.scan.ranges import in_ranges
from rmqstore.store.parts import PartKind
from rmqstore.store.root import Store
from rmqstore.verify.context import Context, Options
from rmqstore.verify.index.views import HEADER_LAYOUT, IndexView, open_views
from rmqstore.versions import Profile

_NAME, _BEHIND, _INCOMPLETE = "RMQ-IX-NAME", "RMQ-IX-BEHIND", "RMQ-IX-INCOMPLETE"


@dataclass(frozen=True, slots=True)
class Gap:
    """The range between two neighbours that stay: the names of the files there that do not stay, and whether files are built for it."""

    after: IndexView | None
    before: IndexView | None
    names: tuple[str, ...]
    is_filled: bool

    @property
    def request(self) -> IndexRequest:
        """The request for files with the keys that neither neighbour has. Raises UnreadableError, StoreChangedError."""
        after, before = self.after, self.before
        if after is None and before is None:
            return IndexRequest()
        keys = KeyRange(last_border(after) if after is not None else None, first_border(before) if before is not None else None)
        is_full = after is not None and after.items >= after.capacity - 1
        return IndexRequest(keys, (after.end_timestamp, after.end_phy_offset) if after is not None and is_full else (0, 0))


@dataclass(frozen=True)
class ChosenIndex:
    """The index files of `store` that stay, and the gaps to fill between them; `builds`: the broker is configured to have an index.

    `unknown` is a file with unknown numbers of slots and entries: then no file is touched, because this one may be valid.
    """

    store: Store
    judgement: Judgement
    staying: Sequence[IndexView]
    gaps: Sequence[Gap]
    builds: bool
    unknown: str | None = None

    @property
    def requests(self) -> list[IndexRequest]:
        """The requests for what has to be built, one for each gap that is filled. Raises UnreadableError, StoreChangedError."""
        return [gap.request for gap in self.gaps if gap.is_filled]

    def plan(self, builder: PlanBuilder, made: Sequence[tuple[IndexResult, Made]]) -> int:
        """Plan with the files that were built for the requests.

        Returns the end timestamp (ms) of the last file that another one will follow, 0 for none, as checkpoints keep it.
        Raises RefusedError, UnreadableError, StoreChangedError, OSError.
        """
        _foreign_names(builder, self.store)
        if self.unknown is not None:
            builder.note(
                f"The index is left unchanged: nothing shows how many slots and entries {self.unknown} has; give --broker-conf FILE, or "
                "--set maxHashSlotNum=N --set maxIndexNum=N."
            )
        elif not self.gaps:
            if self.builds:
                _count_from_one(builder, self.staying)
            else:
                builder.note("The broker is configured to build no index, so the index is left unchanged.")
        if not self.gaps:
            return _full_until([view.end_timestamp for view in self.staying])
        results = iter(made)
        ends: list[int] = []
        for gap in self.gaps:
            if gap.is_filled:
                result, files = next(results)
                _place(builder, self.store, gap, [_File.of(file, files) for file in result.files], self.judgement)
                ends += [file.end_timestamp for file in result.files]
            ends += [gap.before.end_timestamp] if gap.before is not None else []
        if any(result.files for result, _ in made):
            for note in evidence_of(self.store).notes_on({PartKind.INDEX}):
                builder.note(note)
        return _full_until(ends)


def choose_index(store: Store, profile: Profile, log: FutureLog, judgement: Judgement, *, everything: bool = False) -> ChosenIndex:
    """Choose what makes the index of `store` agree with the future `log`; `everything`: no file stays, valid ones neither.

    Raises UnreadableError, StoreChangedError.
    """
    files = {file.path.name: file.path for file in store.index_files() if file.named_right}
    views = open_views(Context(store, Options()))[0]
    staying = [] if everything else [view for view in views if _stays(view, log, judgement)]
    codes = {finding.code for finding in judgement.coverage} | ({_BEHIND} if _lacks_corrected(log, staying, profile) else set())
    unknown = files.keys() - {view.file.path.name for view in views} - judgement.index.keys()
    if unknown and not everything:
        return ChosenIndex(store, judgement, staying, (), builds=True, unknown=min(unknown))
    if not everything and len(staying) == len(files) and not codes:
        return ChosenIndex(store, judgement, staying, (), builds=True)
    if not settings_of(store).builds_index(profile):
        return ChosenIndex(store, judgement, views, (), builds=False)
    kept = [view for view in staying if view.items]
    if _BEHIND in codes and kept and kept[-1].items < kept[-1].capacity - 1:
        kept.pop()
    return ChosenIndex(store, judgement, kept, tuple(_gaps(kept, sorted(files), incomplete=_INCOMPLETE in codes)), builds=True)


def plan_index(planning: Planning, store: Store, log: FutureLog, judgement: Judgement, *, everything: bool = False) -> None:
    """Plan what makes the index of `store` agree with the future `log`. Raises as `choose_index` and `ChosenIndex.plan` do."""
    chosen = choose_index(store, planning.profile, log, judgement, everything=everything)
    chosen.plan(planning.builder, rebuild_derived(planning, store, log, index=chosen.requests).index)


def full_until(store: Store) -> int:
    """Return the end timestamp (ms) of the last index file but one, as a clean stop's checkpoint has it, or 0. Raises UnreadableError."""
    return _full_until([view.end_timestamp for view in open_views(Context(store, Options()))[0]])


def _full_until(ends: Sequence[int]) -> int:
    """Return the end timestamp of the last file but one."""
    return ends[-2] if len(ends) > 1 else 0


def _foreign_names(builder: PlanBuilder, store: Store) -> None:
    for obstacle in store.index_obstacles():
        builder.quarantine(obstacle.path, reason=obstacle.reason, code=_NAME if obstacle.wanted is None else "RMQ-ST-KIND")
    for file in store.index_files():
        if not file.named_right:
            builder.quarantine(file.path, reason=CATALOGUE[_NAME].title, code=_NAME)


def _count_from_one(builder: PlanBuilder, views: Sequence[IndexView]) -> None:
    """Write into files without entries what the first start and stop would write there: they count from one."""
    field = HEADER_LAYOUT["index_count"]
    one = (1).to_bytes(field.width, "big")
    for view in views:
        if view.index_count < 1:
            builder.write(view.file.path, field.offset, one, reason="an index file that no broker has opened yet")


# Files that stay


def _stays(view: IndexView, log: FutureLog, judgement: Judgement) -> bool:
    """Return whether nothing is wrong with a file, now and in the future."""
    if judgement.index.get(view.file.path.name):
        return False
    if not view.items:
        return True
    damages = np.array(log.damages, np.int64).reshape(-1, 2)
    return view.last_offset < log.end_offset and not (
        len(damages) and any(in_ranges(offsets, damages).any() for _, offsets in view.item_offsets(1, view.items + 1))
    )


def _lacks_corrected(log: FutureLog, views: Sequence[IndexView], profile: Profile) -> bool:
    """Return whether a corrected record that has keys is after the last one that the index holds."""
    last = max((view.last_offset for view in views if view.items), default=-1)
    records = (log.record_at(position) for position in log.corrected if position > last)
    return any(record is not None and any(message_keys(record.properties, profile.indexes_tags)) for record in records)


def _gaps(kept: Sequence[IndexView], names: Sequence[str], *, incomplete: bool) -> Iterator[Gap]:
    """Yield the gaps before, between and after the files that stay; files without entries never stay where something is built."""
    staying = {view.file.path.name for view in kept}
    for after, before in pairwise([None, *kept, None]):
        low = after.file.path.name if after is not None else ""
        high = before.file.path.name if before is not None else None
        inside = tuple(name for name in names if name not in staying and name > low and (high is None or name < high))
        yield Gap(after, before, inside, is_filled=bool(inside) or incomplete or before is None)


# Built files


@dataclass(frozen=True, slots=True)
class _File:
    """A file that was built, and the name that the time of its first record would give it."""

    name: str
    staged: StagedFile

    @classmethod
    def of(cls, file: RebuiltIndexFile, files: Made) -> _File:
        return cls(file.name, files[file.path])


def _place(builder: PlanBuilder, store: Store, gap: Gap, made: Sequence[_File], judgement: Judgement) -> None:
    """Put built files in the places of those that do not stay, and after them under new names; quarantine those left over."""
    directory = store.path_of(PartKind.INDEX)
    last = gap.after.file.path.name if gap.after is not None else ""
    for number, each in enumerate(made):
        if number < len(gap.names):
            last = gap.names[number]
            code, reason = _why(last, judgement)
            builder.replace(directory / last, each.staged, reason=reason, code=code)
            continue
        limit = gap.before.file.path.name if gap.before is not None else None
        last = each.name if each.name > last and (limit is None or each.name < limit) else following_name(last)
        if limit is not None and last >= limit:
            raise RefusedError(
                f"There is no unused name for an index file before {directory / limit}.",
                "Rebuild the whole index: rmqstore rebuild-index --all.",
            )
        builder.create(directory / last, each.staged, reason="keys of the log that no index file holds", code=_INCOMPLETE)
    for name in gap.names[len(made) :]:
        code, reason = _why(name, judgement)
        builder.quarantine(directory / name, reason=f"{reason}: the index does not need this file", code=code)


def _why(name: str, judgement: Judgement) -> tuple[str | None, str]:
    """Return (code, reason) of what is wrong with a file."""
    findings = judgement.index.get(name, [])
    if findings:
        more = f", and {len(findings) - 1} more findings" if len(findings) > 1 else ""
        return findings[0].code, f"{CATALOGUE[findings[0].code].title}{more}"
    if judgement.coverage:
        return judgement.coverage[0].code, CATALOGUE[judgement.coverage[0].code].title
    return None, "rebuilt from the commit log"
