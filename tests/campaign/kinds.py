"""The table of kinds of random damage: a name, and a function that plans one such damage on a given undamaged store.

    operations = KINDS["log-files-swapped"](Random(1), StoreView(root, settings))

A plan depends on the bytes of the store and the random numbers alone. Where a store has nothing that could be damaged so, it is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.broker.random_damages import random_damage
from tests.support.damages import DAMAGES
from tests.support.operations import Op
from tests.support.storeview import StoreView

Kind = Callable[[Random, StoreView], list[Op]]
KINDS: dict[str, Kind] = {}
SECTOR, PAGE = 512, 4096


def kind(name: str) -> Callable[[Kind], Kind]:
    """Enter one plan under one name."""

    def enter(plan: Kind) -> Kind:
        KINDS[name] = plan
        return plan

    return enter


_OF_THE_TABLE = [name for name in DAMAGES if "+" not in name and name != "none"]


@kind("table")
def _table(random: Random, view: StoreView) -> list[Op]:
    """One of the named damages."""
    try:
        return DAMAGES[random.choice(_OF_THE_TABLE)](view)
    except (IndexError, ValueError):  # the store has no records or no queues
        return []


@kind("bytes")
def _bytes(random: Random, view: StoreView) -> list[Op]:
    """One damage of a byte, field, record, unit or file, as those that the real store code is compared with."""
    return random_damage(random, view, counts=(1,))[1]
