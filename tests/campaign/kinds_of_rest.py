"""Random damages around log and queues: an old index, checkpoint or configuration, foreign and special files, offsets that lead nowhere."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from random import Random
from typing import Any

from rmqstore.formats import checkpoint, index
from rmqstore.formats.layout import fixed_layout
from tests.campaign.kinds import kind
from tests.support.operations import SPECIAL_FILES, Copy, Create, Delete, MakeDirectory, Op, Resize, Special, Swap, Write
from tests.support.storeview import StoreView

_CHECKPOINT = fixed_layout(checkpoint.CHECKPOINT)
_HEADER, _ITEM = fixed_layout(index.HEADER), fixed_layout(index.ITEM)
_FAR = 10**9
_SCHEDULE = "SCHEDULE_TOPIC_XXXX"


# ---- index


@kind("index-old-backup")
def _index_old(random: Random, view: StoreView) -> list[Op]:
    """The index as it was some items earlier: later files are gone, the chains of the last one begin at an earlier item."""
    if not view.index_files:
        return []
    number = random.randrange(len(view.index_files))
    path = view.index_files[number]
    data = bytearray(view.read(path))
    count = int(index.HEADER.parse(data).index_count)
    kept = random.randrange(1, max(2, count))
    used = 0
    for slot in range(view.items_position - 4 * view.slots, view.items_position, 4):
        item = int.from_bytes(data[slot : slot + 4], "big")
        while item >= kept:
            item = _item_field(view, data, item, "prev_index")
        used += item > 0
        data[slot : slot + 4] = item.to_bytes(4, "big")
    begin = view.items_position + kept * index.ITEM.sizeof()
    data[begin:] = bytes(len(data) - begin)
    last = kept - 1
    end_offset = _item_field(view, data, last, "phy_offset") if last else 0
    _put(data, "end_phy_offset", end_offset)
    _put(data, "index_count", kept)
    _put(data, "hash_slot_count", used)
    return [*(Delete(later) for later in view.index_files[number + 1 :]), Create(path, bytes(data))]


def _item_field(view: StoreView, data: bytes | bytearray, item: int, name: str) -> int:
    place = _ITEM[name]
    start = view.items_position + item * index.ITEM.sizeof() + place.offset
    return int.from_bytes(data[start : start + place.width], "big")


def _put(data: bytearray, name: str, value: int) -> None:
    place = _HEADER[name]
    data[place.offset : place.offset + place.width] = value.to_bytes(place.width, "big")


@kind("index-files-swapped")
def _index_swapped(random: Random, view: StoreView) -> list[Op]:
    if len(view.index_files) < 2:
        return []
    first, second = random.sample(view.index_files, 2)
    return random.choice(([Swap(first, second)], [Copy(first, second)]))


# ---- checkpoint


@kind("checkpoint-old-backup")
def _checkpoint_old(random: Random, view: StoreView) -> list[Op]:
    """The checkpoint as it was at an earlier record."""
    if not view.records:
        return []
    then = random.choice(view.records)
    values = {
        "physic_msg_timestamp": then.record.store_timestamp,
        "logics_msg_timestamp": then.record.store_timestamp,
        "index_msg_timestamp": then.record.store_timestamp,
        "logics_physical_offset": then.offset,
    }
    return [Write("checkpoint", _CHECKPOINT[name].offset, value.to_bytes(8, "big")) for name, value in values.items()]


# ---- configuration


def _json(view: StoreView, path: str) -> Any:
    """The object of a configuration file, None where it is missing or no strict JSON."""
    try:
        return json.loads(view.read(path))
    except (OSError, ValueError):
        return None


@kind("config-offsets-beyond")
def _offsets_beyond(random: Random, view: StoreView) -> list[Op]:
    """Offsets of consumers, or of delay levels, beyond the ends of their queues.

    Not in a sample with batch queues whose topics are given to the store code alone: with a configuration no broker would load them.
    """
    if (view.root / "batchconsumequeue").is_dir() and not (view.root / "config/topics.json").exists():
        return []
    far = random.choice((1, 5, 1000, _FAR))
    if random.random() < 0.5:
        levels = sorted(int(queue) + 1 for topic, queue in view.queues if topic == _SCHEDULE)
        table = {level: len(view.units((_SCHEDULE, str(level - 1)))) + far for level in levels}
        return [Create("config/delayOffset.json", json.dumps({"offsetTable": table}).encode())] if table else []
    if not view.queues:
        return []
    topic, queue = random.choice(sorted(view.queues))
    known = _json(view, "config/consumerOffset.json") or {"offsetTable": {}}
    known["offsetTable"].setdefault(f"{topic}@some_group", {})[queue] = len(view.units((topic, queue))) + far
    return [Create("config/consumerOffset.json", json.dumps(known).encode())]


@kind("config-old-backup")
def _config_old(random: Random, view: StoreView) -> list[Op]:
    """Offsets, topics or groups from an older backup, or gone."""
    names = [path.name for path in sorted((view.root / "config").glob("*.json"))]
    if not names:
        return []
    path = f"config/{random.choice(names)}"
    known = _json(view, path)
    if isinstance(known, dict) and isinstance(known.get("offsetTable"), dict) and random.random() < 0.7:
        return [Create(path, json.dumps({**known, "offsetTable": _older(random, known["offsetTable"])}).encode())]
    return random.choice(([Copy(path, f"{path}.bak")], [Delete(path)], [Delete(path), Delete(f"{path}.bak")], [Resize(path, 0)]))


def _older(random: Random, table: Any) -> Any:
    if isinstance(table, dict):
        return {key: _older(random, value) for key, value in table.items()}
    return random.randrange(table + 1) if isinstance(table, int) and table > 0 else table


# ---- foreign and special files


def _directories(view: StoreView) -> list[str]:
    found = [path.relative_to(view.root).as_posix() for path in sorted(view.root.rglob("*")) if path.is_dir()]
    return ["", *(f"{path}/" for path in found if not path.startswith("rocksdbstore"))]


_FOREIGN = (
    "readme.txt",
    ".DS_Store",
    "core.1234",
    "zzz",
    "a\nb",
    "00000000000000000000.tmp",
    "lost+found",
    "Ünïcode",
    "--yes",
    "store.lock",
)


@kind("foreign-file")
def _foreign(random: Random, view: StoreView) -> list[Op]:
    path = f"{random.choice(_directories(view))}{random.choice(_FOREIGN)}"
    return random.choice(
        ([Create(path, b"foreign")], [Create(path)], [MakeDirectory(path)], [Create(f"{path}/{PurePosixPath(path).name}", b"x")])
    )


def _files(view: StoreView) -> list[str]:
    paths = (path.relative_to(view.root).as_posix() for path in sorted(view.root.rglob("*")) if path.is_file())
    return [path for path in paths if not path.startswith("rocksdbstore")]


@kind("special-in-place")
def _special(random: Random, view: StoreView) -> list[Op]:
    """Something that is no regular file in the place of one; each area of the store is as likely as another."""
    files = _files(view)
    area = random.choice(sorted({path.partition("/")[0] for path in files}))
    path = random.choice([path for path in files if path.partition("/")[0] == area])
    return [Special(path, random.choice(SPECIAL_FILES))]


@kind("special-beside")
def _special_beside(random: Random, view: StoreView) -> list[Op]:
    """The same beside files, with a foreign name, or the one that comes next."""
    files = _files(view)
    area = random.choice(sorted({path.partition("/")[0] for path in files}))
    path = PurePosixPath(random.choice([path for path in files if path.partition("/")[0] == area]))
    step = view.log_file_size if area == "commitlog" else view.queue_file_size
    following = f"{int(path.name) + step:020d}" if path.name.isdecimal() else f"{path.name}.new"
    return [Special(str(path.with_name(random.choice((following, "zzz", f"{path.name}.bak")))), random.choice(SPECIAL_FILES))]


@kind("directory-replaced")
def _directory_replaced(random: Random, view: StoreView) -> list[Op]:
    """A special file in the place of a directory of queues, index or configuration."""
    found = [path.rstrip("/") for path in _directories(view) if path and not path.startswith("commitlog")]
    return [Special(random.choice(found), random.choice(SPECIAL_FILES))] if found else []
