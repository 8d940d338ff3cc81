"""Comparison of several starts of the same store: with and without `abort`, with and without the checkpoint, under several releases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from rmqstore.errors import UsageError
from rmqstore.prediction.consequences import Consequences, consequences_of
from rmqstore.prediction.outcome import Outcome
from rmqstore.prediction.readable import simulate_readable
from rmqstore.prediction.simulation import WhatIf
from rmqstore.store.access import Denied
from rmqstore.store.root import Store
from rmqstore.versions import PROFILES, profile_of


class Dimension(StrEnum):
    """The conditions that can be varied."""

    ABORT = "abort"
    CHECKPOINT = "checkpoint"
    VERSION = "version"


_ABORT = {"present": True, "absent": False}
_CHECKPOINT = {"kept": False, "removed": True}
_ALL = "all"

HARMS = (
    *("does it start", "messages lost", "entries served", "queues shifted", "queue offsets assigned twice"),
    *("offset of the next message", "index entries lost"),
)
"""Possible harms of a start, the worst first. A next message at a higher offset leaves a gap, at which a later recovery would stop."""
_STARTS = {True: 0, None: 1, False: 2}


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to start: None for `abort` means unchanged."""

    release: str
    what_if: WhatIf

    @property
    def label(self) -> dict[str, str]:
        """Return the variant in words."""
        abort = {None: "as it is", True: "present", False: "absent"}[self.what_if.abort]
        return {
            "version": self.release,
            "abort": abort,
            "checkpoint": "removed" if self.what_if.checkpoint_removed else "kept",
        }


@dataclass(frozen=True, slots=True)
class Compared:
    """A variant, its outcome, and the harm that it does."""

    variant: Variant
    outcome: Outcome
    consequences: Consequences

    @property
    def harm(self) -> tuple[int, ...]:
        """Return the measures of harm in the order of `HARMS`; smaller is better."""
        outcome, consequences = self.outcome, self.consequences
        serves = outcome.starts is not False
        return (
            _STARTS[outcome.starts],
            outcome.lost.messages if outcome.lost is not None else 0,
            -self.entries if serves else 0,
            sum(1 for queue in consequences.queues if queue.shift),
            consequences.given_twice,
            (outcome.after_start or outcome.after_load).max_phy_offset or 0 if serves else 0,
            consequences.index_items_lost,
        )

    @property
    def entries(self) -> int:
        """Return the number of entries that consumers find in the queues after the start."""
        state = self.outcome.after_start or self.outcome.after_load
        return sum(queue.max_offset - queue.min_offset for queue in (state.queues or {}).values())


def parse_variants(texts: Sequence[str], release: str) -> tuple[Variant, ...]:
    """Return the variants that `abort=present,absent checkpoint=kept,removed version=all` spans. Raises UsageError."""
    aborts: list[bool | None] = [None]
    removed = [False]
    releases = [release]
    for text in (word for given in texts for word in given.split()):
        name, _, values = text.partition("=")
        match name:
            case Dimension.ABORT:
                aborts = [_choice(text, value, _ABORT) for value in values.split(",")]
            case Dimension.CHECKPOINT:
                removed = [_choice(text, value, _CHECKPOINT) for value in values.split(",")]
            case Dimension.VERSION:
                releases = [profile.until for profile in PROFILES] if values == _ALL else values.split(",")
            case _:
                raise UsageError(f"--what-if {text}: {name!r} cannot be varied.", f"Try one of {', '.join(Dimension)}.")
    for one in releases:
        profile_of(one)
    return tuple(Variant(one, WhatIf(abort, without)) for one, abort, without in product(releases, aborts, removed))


def _choice(text: str, value: str, known: dict[str, bool]) -> bool:
    if value not in known:
        raise UsageError(f"--what-if {text}: {value!r} is unknown.", f"Known are {' and '.join(known)}.")
    return known[value]


def compare(store: Store, variants: Sequence[Variant], denied: Sequence[Denied] = ()) -> Iterator[Compared]:
    """Simulate every variant, one after the other, as far as possible without paths that lack read permission (`denied`)."""
    for variant in variants:
        outcome = simulate_readable(store, variant.release, denied, variant.what_if)
        yield Compared(variant, outcome, consequences_of(store, outcome))


def why_least(results: Sequence[Compared], best: Compared, release: str) -> str:
    """Return the first measure of harm in which the best way is better, as a sentence.

    It is compared with the worst way, or, where another release than `release` is better, with the best way of `release`.
    """
    if best.outcome.starts is False:
        return "none of these ways starts"
    own = [compared for compared in results if compared.variant.release == release]
    changes = bool(own) and best.variant.release != release
    other = min(own, key=_harm) if changes else max(results, key=_harm)
    for name, least, most in zip(HARMS, best.harm, other.harm, strict=True):
        if least != most and name == HARMS[0]:
            return f"no way is known to start with {release}" if changes else "not every way starts"
        if least != most:
            return f"{name}: {abs(least)}, {f'in the best way with {release}' if changes else 'in the worst of these ways'} {abs(most)}"
    return "all variants do the same harm"


def _harm(compared: Compared) -> tuple[int, ...]:
    return compared.harm


def least_harmful(results: Sequence[Compared], release: str, *, abort: bool) -> tuple[Compared, ...]:
    """Return the results with the least harm. The first changes least of `release` and of the store, which has `abort`."""
    least = min(compared.harm for compared in results)

    def change(compared: Compared) -> tuple[bool, bool, bool]:
        what_if = compared.variant.what_if
        return compared.variant.release != release, what_if.checkpoint_removed, what_if.abort not in (None, abort)

    return tuple(sorted((compared for compared in results if compared.harm == least), key=change))
