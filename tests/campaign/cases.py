"""Random cases: a sample store, one to five damages, `abort` there or not, and the release that the repair is for and that opens it.

A case depends on its seed and number alone.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from tests.broker.live import RELEASES
from tests.campaign import kinds_of_log, kinds_of_queues, kinds_of_rest  # noqa: F401 (they enter their kinds)
from tests.campaign.kinds import KINDS
from tests.support import stores
from tests.support.operations import Delete, Op
from tests.support.storeview import StoreView

MODULE = "tests.campaign"
_COUNTS = (1, 1, 1, 2, 2, 3, 4, 5)
_FOR_WRITER = 0.7
_WHOLE_BROKER = 0.15
_NOT_TOLD = 0.3
_SIZES = ("mappedFileSize", "mapperFileSize", "maxHashSlotNum", "maxIndexNum", "flush", "transientStorePoolSize", "compaction", "max")
_LAID_OUT_DIFFERENTLY = ("broker-5.3.3-dledger-clean",)
_EMPTY = ("4.9.8-empty", "5.3.3-empty-crash", "5.5.1-empty")


@dataclass(frozen=True, slots=True)
class Damage:
    """One kind of damage with its own random numbers."""

    kind: str
    seed: int

    def plan(self, view: StoreView) -> list[Op]:
        """The operations on this store."""
        return KINDS[self.kind](Random(self.seed), view)


@dataclass(frozen=True, slots=True)
class Case:
    """`number` is that within the seed; `told`: the settings of the store are given; `only`: the kinds that the choice was narrowed to;
    `kept`: which of the damages of that number are made, where not all are."""

    seed: int
    number: int
    base: str
    release: str
    abort: bool
    told: bool
    damages: tuple[Damage, ...]
    only: tuple[str, ...] = ()
    kept: tuple[int, ...] | None = None

    @property
    def options(self) -> str:
        """What runs this case alone."""
        only = "".join(f" --kind {kind}" for kind in self.only)
        kept = "" if self.kept is None else f" --keep {','.join(map(str, self.kept))}"
        return f"--seed {self.seed} --first {self.number} --cases 1{only}{kept}"

    def keeping(self, numbers: Iterable[int]) -> Case:
        """The same case with some of its damages."""
        return replace(self, kept=tuple(numbers))

    @property
    def made(self) -> tuple[Damage, ...]:
        """The damages that are made."""
        return self.damages if self.kept is None else tuple(self.damages[number] for number in self.kept)

    @property
    def operations(self) -> list[Op]:
        """Everything that is done to the store."""
        return [operation for damage in self.made for operation in damage.plan(view_of(self.base))]

    def damage(self, root: Path) -> None:
        """Perform it on a copy of the base. What an earlier damage made impossible is left out."""
        for operation in self.operations:
            with suppress(OSError):
                operation.apply(root)
        abort = root / "abort"
        if not self.abort:
            Delete("abort").apply(root)
        elif not abort.is_symlink() and not abort.exists():
            abort.touch()

    def __str__(self) -> str:
        kinds = " + ".join(damage.kind for damage in self.made) or "nothing"
        told = "" if self.told else ", without --set"
        return f"{self.options}: {kinds} on {self.base}, for {self.release}, abort {'there' if self.abort else 'not there'}{told}"


def bases() -> list[str]:
    """Sample stores with messages and a `commitlog`."""
    return [case.name for case in stores.cases() if case.name not in (*_LAID_OUT_DIFFERENTLY, *_EMPTY)]


@functools.cache
def view_of(base: str) -> StoreView:
    """The undamaged sample store."""
    root = stores.sample_store(base)
    return StoreView(root, stores.case(base).settings(root))


def random_case(seed: int, number: int, only: Iterable[str] = ()) -> Case:
    """Case `number` of a seed. `only`: kinds that the choice is narrowed to."""
    random = Random(f"{seed}-{number}")
    whole = [name for name in bases() if stores.case(name).is_broker]
    single = [name for name in bases() if name not in whole]
    base = random.choice(whole if random.random() < _WHOLE_BROKER else single)
    writer = stores.case(base).release
    later = [release for release in RELEASES if _numbers(release) > _numbers(writer)]
    release = random.choice(later) if later and "rocksdb" not in base and random.random() > _FOR_WRITER else writer
    abort = random.random() < 0.5
    told = random.random() > _NOT_TOLD or not _only_sizes(base)
    chosen = random.choices(sorted(only or KINDS), k=random.choice(_COUNTS))
    damages = tuple(Damage(kind, random.getrandbits(32)) for kind in chosen)
    return Case(seed, number, base, release, abort, told, damages, tuple(only))


@functools.cache
def _only_sizes(base: str) -> bool:
    """Whether all settings of a sample are lengths of files, which the files tell, or intervals."""
    return all(name.startswith(_SIZES) for name in stores.case(base).data["settings"])


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
