"""The damages that whole brokers were started on: a name, and what it does to the store of a broker."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

Recipe = Callable[[Path], None]
WHEEL = 1_209_600 * 32
UNIT = 52


def noise(count: int) -> bytes:
    return random.Random(5).randbytes(count)


def both(*recipes: Recipe) -> Recipe:
    def damage(root: Path) -> None:
        for recipe in recipes:
            recipe(root)

    return damage


def gone(*names: str) -> Recipe:
    def damage(root: Path) -> None:
        for name in names:
            path = root / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    return damage


def write(name: str, make: Callable[[bytes], bytes]) -> Recipe:
    def damage(root: Path) -> None:
        path = root / name
        path.write_bytes(make(path.read_bytes() if path.exists() else b""))

    return damage


def config(name: str, make: Callable[[bytes], bytes], backup: str = "") -> Recipe:
    """`backup`: what becomes of the `.bak`: `same` text, the `good` one, `gone`."""

    def damage(root: Path) -> None:
        path = root / "config" / name
        good = path.read_bytes()
        path.write_bytes(make(good))
        other = path.with_name(name + ".bak")
        if backup == "gone":
            other.unlink(missing_ok=True)
        elif backup:
            other.write_bytes(good if backup == "good" else make(good))

    return damage


def half(name: str, backup: str) -> Recipe:
    return config(name, lambda text: text[: len(text) // 2], backup)


def lost(name: str) -> Recipe:
    return gone(f"config/{name}", f"config/{name}.bak")


def patch(name: str, position: int, data: bytes) -> Recipe:
    return write(name, lambda old: old[:position] + data + old[position + len(data) :])


def resize(place: str, change: int, pick: Callable[[Iterable[Path]], Path] = max) -> Recipe:
    """Makes a file, or the picked one of a directory, longer or shorter."""

    def damage(root: Path) -> None:
        path = root / place
        path = pick(path.iterdir()) if path.is_dir() else path
        os.truncate(path, max(0, path.stat().st_size + change))

    return damage


def offsets(key: str, values: dict[int, int]) -> Recipe:
    def damage(root: Path) -> None:
        for name in ("consumerOffset.json", "consumerOffset.json.bak"):
            path = root / "config" / name
            if path.exists():
                table = json.loads(re.sub(r"([{,]\s*)(-?\d+)(\s*:)", r'\1"\2"\3', path.read_text()))
                table["offsetTable"].setdefault(key, {}).update({str(queue): value for queue, value in values.items()})
                path.write_text(json.dumps(table))

    return damage


def units(root: Path) -> Iterator[tuple[Path, int, int, tuple[int, ...]]]:
    """(file, position, offset, fields) of the units of the timer log."""
    for path in sorted((root / "timerlog").iterdir()):
        data = path.read_bytes()
        for position in range(0, len(data) - UNIT + 1, UNIT):
            fields = struct.unpack_from(">iqiqiqiiq", data, position)
            if fields[0] != UNIT:
                break
            yield path, position, int(path.name) + position, fields


def last_units(count: int, fill: bytes) -> Recipe:
    def damage(root: Path) -> None:
        for path, position, _, _ in list(units(root))[-count:]:
            patch(str(path), position, fill * UNIT)(root)

    return damage


def own_link(root: Path) -> None:
    path, position, offset, _ = list(units(root))[-1]
    patch(str(path), position + 4, struct.pack(">q", offset))(root)


def slots_beyond(root: Path) -> None:
    known = list(units(root))
    beyond = known[-1][2] + 11 * UNIT
    wheel = bytearray((root / "timerwheel").read_bytes())
    for _, _, _, fields in known:
        slot = (fields[3] + fields[4]) // 1000
        struct.pack_into(">qqqii", wheel, slot % 1_209_600 * 32, slot, beyond, beyond, 1, 0)
    (root / "timerwheel").write_bytes(wheel)


HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_OP_HALF_TOPIC@CID_RMQ_SYS_TRANS"
CHECK = "config/timercheck"
COMPACTED = "compaction/compactionLog/compact/0/00000000000000000000"
RECIPES: dict[str, Recipe] = {
    "none": lambda root: None,
    "topics-half": half("topics.json", "good"),
    "topics-half-both": half("topics.json", "same"),
    "topics-half-nobak": half("topics.json", "gone"),
    "topics-empty": config("topics.json", lambda text: b"", "good"),
    "topics-empty-both": config("topics.json", lambda text: b"", "same"),
    "topics-nul": config("topics.json", lambda text: bytes(len(text)), "good"),
    "topics-null": config("topics.json", lambda text: b"null", "good"),
    "topics-missing": lost("topics.json"),
    "topics-trailing": config("topics.json", lambda text: text + text[-40:], "good"),
    "offset-empty": config("consumerOffset.json", lambda text: b"", "good"),
    "offset-blank": config("consumerOffset.json", lambda text: b" \n", "good"),
    "offset-half-both": half("consumerOffset.json", "same"),
    "offset-missing": lost("consumerOffset.json"),
    "offset-beyond": offsets("orders@g_orders", {0: 99999}),
    "offset-negative": offsets("orders@g_orders", {0: -7}),
    "offset-revive-zero": offsets("rmq_sys_REVIVE_LOG_LabCluster@CID_RMQ_SYS_REVIVE_GROUP", dict.fromkeys(range(8), 0)),
    "offset-trans-zero": both(offsets(HALF, {0: 0}), offsets(OP, {0: 0})),
    "offset-trans-beyond": both(offsets(HALF, {0: 100_000}), offsets(OP, {0: 100_000})),
    "group-half-both": half("subscriptionGroup.json", "same"),
    "group-missing": lost("subscriptionGroup.json"),
    "filter-garbage-both": config("consumerFilter.json", lambda text: noise(300), "same"),
    "filter-half": half("consumerFilter.json", "good"),
    "orderinfo-garbage-both": config("consumerOrderInfo.json", lambda text: noise(300), "same"),
    "requestmode-garbage-both": config("messageRequestMode.json", lambda text: noise(300), "same"),
    "mapping-garbage": config("topicQueueMapping.json", lambda text: noise(300), "gone"),
    "mapping-garbage-both": config("topicQueueMapping.json", lambda text: noise(300), "same"),
    "mapping-missing": lost("topicQueueMapping.json"),
    "delay-missing": lost("delayOffset.json"),
    "delay-half": half("delayOffset.json", "good"),
    "delay-half-both": half("delayOffset.json", "same"),
    "delay-beyond": config("delayOffset.json", lambda text: b'{"offsetTable":{1:99999,3:99999,5:99999,14:0,18:0}}', "same"),
    "delay-zero-5": config("delayOffset.json", lambda text: b'{"offsetTable":{1:0,3:0,5:0,14:0,18:0}}', "same"),
    "check-garbage": write(CHECK, lambda data: noise(4096)),
    "check-zero": write(CHECK, lambda data: bytes(4096)),
    "check-missing": gone(CHECK),
    "check-short": write(CHECK, lambda data: data[:20]),
    "check-long": write(CHECK, lambda data: data + data),
    "check-future": patch(CHECK, 0, struct.pack(">q", 4_102_444_800_000)),
    "check-queue-beyond": patch(CHECK, 16, struct.pack(">qq", 10**6, 10**6)),
    "check-flushpos-beyond": patch(CHECK, 8, struct.pack(">q", 10**7)),
    "wheel-plus32": resize("timerwheel", 32),
    "wheel-minus32": resize("timerwheel", -32),
    "wheel-empty": resize("timerwheel", -WHEEL),
    "wheel-missing": gone("timerwheel"),
    "wheel-garbage": write("timerwheel", lambda data: noise(WHEEL)),
    "wheel-past-end": slots_beyond,
    "log-tail-zero": last_units(5, b"\0"),
    "log-tail-ff": last_units(5, b"\xff"),
    "log-last-size": resize("timerlog", -UNIT),
    "log-first-size": resize("timerlog", -UNIT, min),
    "log-last-empty": resize("timerlog", -WHEEL),
    "log-missing": gone("timerlog"),
    "log-extra-file": write(f"timerlog/{100 << 20:020d}", lambda data: b""),
    "log-loop": own_link,
    "timer-all-missing": gone("timerlog", "timerwheel", CHECK, "config/timermetrics", "config/timermetrics.bak"),
    "metrics-garbage-both": config("timermetrics", lambda text: noise(200), "same"),
    "metrics-half": half("timermetrics", "good"),
    "txmetrics-garbage-both": config("transactionMetrics", lambda text: noise(200), "same"),
    "compaction-position-garbage": write("compaction/position-checkpoint", lambda data: noise(60)),
    "compaction-cq-missing": gone(COMPACTED.replace("Log", "Cq")),
    "compaction-missing": gone("compaction"),
    "compaction-delete-file": write(f"{COMPACTED}.delete", lambda data: b"x"),
    "compaction-delete-copy": lambda root: shutil.copy(root / COMPACTED, root / f"{COMPACTED}.delete") and None,
    "topics-missing-nobcq": both(lost("topics.json"), gone("batchconsumequeue")),
    "topics-null-nobcq": both(config("topics.json", lambda text: b"null", "good"), gone("batchconsumequeue")),
    "topics-blank-nobcq": both(config("topics.json", lambda text: b" \n", "good"), gone("batchconsumequeue")),
    "bcq-missing": gone("batchconsumequeue"),
    "bcq-size": resize("batchconsumequeue/bcq/0", -46, min),
    "cq-size": resize("consumequeue/orders/0", -20, min),
    "identity-garbage": write("brokerIdentity", lambda data: b"Other#broker-x#7"),
    "lock-missing": gone("lock"),
}
