"""The next start and tiered storage: segments that its metadata does not give to the broker, and those that are not there."""

from __future__ import annotations

from collections.abc import Iterator

from rmqstore.doctor.areas import Area, Effect, Harm, State
from rmqstore.doctor.checks.progress import Found
from rmqstore.findings import Finding
from rmqstore.reading.tieredstore import METADATA, keeps_tiers
from rmqstore.verify.context import Context
from rmqstore.verify.guard import limited
from rmqstore.verify.tiered import metadata
from rmqstore.verify.tiered.check import unread_segments
from rmqstore.verify.tiered.index import local_files
from rmqstore.verify.tiered.state import tiered_of
from rmqstore.wording import counted


def check(context: Context) -> Iterator[Found]:
    """Yield effects and findings. Reads the metadata and lists directories; the content of segments is not what a start changes."""
    store = context.store
    if store.only is not None or not keeps_tiers(store):
        return
    tiered = tiered_of(store)
    if tiered.is_unused and not local_files(store):
        return
    found = list(limited(context, store.config_path / METADATA, metadata.check(context, tiered)))
    yield from found
    if found and tiered.metadata is None:
        count = found[0].found
        files = "" if count is None else f"{counted(int(count), 'segment file')} of "
        text = f"{files}tiered storage {'is' if count in (None, 1) else 'are'} not found, because {METADATA} is {tiered.why}"
        yield Effect(Area.OTHER, State.LOSES, text, Harm.INVISIBLE)
    else:
        yield from _losses(found)
    yield from (Effect(Area.OTHER, State.NOT_CHECKED, f"{area}: {reason}") for area, reason in unread_segments(store))


def _losses(found: list[Finding]) -> Iterator[Effect]:
    missing = [finding for finding in found if finding.code == metadata.MISSING]
    if missing:
        text = f"{counted(len(missing), 'segment')} of tiered storage {'is' if len(missing) == 1 else 'are'} missing or too short"
        yield Effect(Area.OTHER, State.LOSES, text, Harm.LOST)
    if any(finding.code == metadata.INCONSISTENT for finding in found):
        yield Effect(Area.OTHER, State.LOSES, f"{METADATA} contradicts the segments of tiered storage", Harm.INVISIBLE)
