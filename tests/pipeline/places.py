"""Where sample stores lie, and copies of one with every damage of the table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rmqstore.pipeline.job import StoreAt
from tests.support import stores
from tests.support.damages import DAMAGES, apply
from tests.support.storeview import StoreView

EVERYTHING = os.environ.get("RMQSTORE_ALL_DAMAGES") == "1"
BASES = ["5.3.3-plain-crash"]
if EVERYTHING:
    BASES += ["4.9.8-plain", "5.1.4-plain-crash", "5.2.0-plain", "5.4.0-plain", "5.5.1-plain"]


def sample_stores(names: Sequence[str] = ()) -> list[StoreAt]:
    """Sample stores (without names: all), with the settings they were written with."""
    roots = {name: stores.sample_store(name) for name in names or [case.name for case in stores.cases()]}
    return [StoreAt.of(root, settings=stores.case(name).settings(root)) for name, root in roots.items()]


def damaged_stores(base: str, directory: Path, *, every: int = 1, names: Sequence[str] = tuple(DAMAGES)) -> list[StoreAt]:
    """A copy of a sample store for each of these damages, or every so many, in folders of `directory`, which is made."""
    view = StoreView(stores.sample_store(base), stores.case(base).settings(stores.sample_store(base)))
    at = []
    for name in names[::every]:
        operations = DAMAGES[name](view)
        (directory / name).mkdir(parents=True)
        root = stores.fresh_store(base, directory / name)
        apply(operations, root)
        at.append(StoreAt.of(root, settings=stores.case(base).settings(root)))
    return at
