"""Damages of single pages, beside those of the table: to configuration, timers and databases, which only whole brokers write."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tests.support import damages
from tests.support.operations import Create, Delete, Noise, Op
from tests.support.storeview import StoreView

Plan = Callable[[StoreView], list[Op]]


def _noise(view: StoreView, path: str) -> Op:
    return Noise(path, 0, len(view.read(path)))


def _config_all_garbage(view: StoreView) -> list[Op]:
    names = ("topics.json", "subscriptionGroup.json", "consumerOffset.json")
    return [_noise(view, f"config/{name}{ending}") for name in names for ending in ("", ".bak")]


def _offsets_of_a_group_old(view: StoreView) -> list[Op]:
    """The offsets of one group are those of a day on which it had read nothing."""
    text = view.read("config/consumerOffset.json").decode()
    old = re.sub(r'("[^"]*@g_orders":\{)([^}]*)', lambda one: one[1] + re.sub(r":\d+", ":0", one[2]), text)
    assert old != text
    return [Create("config/consumerOffset.json", old.encode())]


def _delay_offsets_ahead(view: StoreView) -> list[Op]:
    data = b'{"offsetTable":{1:8000,3:8000}}'
    return [Create(f"config/delayOffset.json{ending}", data) for ending in ("", ".bak")]


def _compaction_stopped(view: StoreView) -> list[Op]:
    """The old file of a compacted log is renamed, and the new one not yet in its place."""
    path = f"compaction/compactionLog/compact/0/{0:020d}"
    return [Create(f"{path}.delete", view.read(path)), Delete(path)]


def _dledger_headers(view: StoreView) -> list[Op]:
    """The first eight bytes of three entries are gone."""
    path = f"dledger-n0/data/{0:020d}"
    data, starts = view.read(path), [0]
    while len(starts) < 200:
        starts.append(starts[-1] + int.from_bytes(data[starts[-1] + 4 : starts[-1] + 8], "big"))
    return [Noise(path, start, 8) for start in starts[-20::8]]


DAMAGES: Mapping[str, Plan] = {
    **damages.DAMAGES,
    "config-all-garbage": _config_all_garbage,
    "offsets-of-a-group-old": _offsets_of_a_group_old,
    "delay-offsets-ahead": _delay_offsets_ahead,
    "timerwheel-garbage": lambda view: [_noise(view, "timerwheel")],
    "compaction-stopped": _compaction_stopped,
    "dledger-headers": _dledger_headers,
    "tiered-metadata-gone": lambda view: [Delete(f"config/tieredStoreMetadata.json{ending}") for ending in ("", ".bak")],
    "rocksdb-queues-without-manifest": lambda view: [Delete("consumequeue/MANIFEST-000005")],
}
"""All damages that a page can name."""
