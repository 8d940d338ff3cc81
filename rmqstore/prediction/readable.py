"""The start of a broker as far as it can be predicted without read permission for everything that the broker reads.

The effect of a start depends on every file that it loads. If some are left out, only results that do not depend on them are kept: the
scan of the log, and what stops the load in files that were read. The rest is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rmqstore.errors import RmqstoreError, UsageError
from rmqstore.prediction.blockers import BlockerCode
from rmqstore.prediction.needed import decides, part_of
from rmqstore.prediction.outcome import Mode, Outcome, State
from rmqstore.prediction.simulation import WhatIf, simulate
from rmqstore.store.access import Denied
from rmqstore.store.mapped import skipping_denied
from rmqstore.store.root import Store
from rmqstore.versions import profile_of

_SCANNED = ("commitlog", "checkpoint")
_QUEUES = "consumequeue"
"""Parts without which nothing is known of the scan of the log: one file of the first, and the last as a whole, decide where it begins."""
_SEEN = frozenset({BlockerCode.FILE_LENGTH, BlockerCode.FILE_NAME, BlockerCode.EMPTY_FILE, BlockerCode.DIRECTORY})
"""Parts of which names and lengths are enough."""


def simulate_readable(
    store: Store, release: str, denied: Sequence[Denied], what_if: WhatIf | None = None, *, counts_lost: bool = True
) -> Outcome:
    """Return the result of `simulate`; if files that decide are `denied`, what is certain without them. Raises as `simulate`."""
    needed = [one for one in denied if decides(one)]
    if not needed:
        return simulate(store, release, what_if, counts_lost=counts_lost)
    why = _why(needed)
    abort = None if what_if is None else what_if.abort
    nothing = unknown_outcome(store, release, why, abort=abort)
    if store.rocksdb_queues or any(part_of(one) in ("", *_SCANNED) or one.file == _QUEUES for one in needed):
        return nothing
    with skipping_denied(files=True):
        left_out = {"enableCompaction": "false"} if any(part_of(one) == "compaction" for one in needed) else {}
        seen = Store(store.root, replace(store.config, given={**store.config.given, **left_out}))
        try:
            found = simulate(seen, release, what_if, counts_lost=counts_lost)
        except UsageError:
            raise
        except (RmqstoreError, OSError):
            return nothing
    blockers = tuple(blocker for blocker in found.blockers if blocker.code in _SEEN)
    parts = {part_of(one) for one in needed} - {"compaction"}
    return replace(
        nothing,
        starts=False if blockers else None,
        blockers=blockers,
        scan=found.scan,
        lost=found.lost,
        queue_ends=found.queue_ends if parts <= {"index"} else {},
        after_load=_kept(found.after_load, release, parts),
        after_start=None if found.after_start is None else _kept(found.after_start, release, parts),
        index_deleted=found.index_deleted if "index" not in parts else (),
    )


def unknown_outcome(store: Store, release: str, why: str, *, abort: bool | None = None) -> Outcome:
    """Return the outcome of a start that cannot be predicted at all."""
    return Outcome(
        release=release,
        mode=Mode.ABNORMAL if (store.abort_present if abort is None else abort) else Mode.NORMAL,
        starts=None,
        unknown=why,
        load_ok=False,
        blockers=(),
        scan=None,
        queue_ends={},
        after_load=State(*[None] * 11),
        after_start=None,
        caught_up=None,
        dispatched_in_load=None,
        dispatched_after_start=None,
        changes={},
        index_deleted=(),
        abort_after_stop=False,
        checkpoint_after=None,
        lost=None,
    )


def _why(denied: Sequence[Denied]) -> str:
    more = f", and {len(denied) - 1} more" if len(denied) > 1 else ""
    return f"{denied[0].message}{more}"


def _kept(state: State, release: str, denied: set[str]) -> State:
    """Return the part of the state that does not depend on the denied parts."""
    if "index" in denied:
        state = replace(state, index_files=None)
    if denied <= {"index"}:
        return state
    # If the dispatch begins at the end of the queues, they decide what the index gets.
    index = None if profile_of(release).reput_from_queues else state.index_files
    return replace(state, queues=None, next_offsets=None, reput_from_offset=None, dispatch_behind_bytes=None, index_files=index)
