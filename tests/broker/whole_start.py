"""One start of a whole broker on a store: name server, broker and clients of a release in one JVM. Everything is pulled and looked up, new
messages are sent, and the broker stops cleanly.
"""

from __future__ import annotations

import json
import random
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.broker.consumed_messages import Line, NotServed, QueueKey, Start, by_queue
from tests.broker.toolchain import WHOLE, JarsMissing, prepared, whole_command

TRANSIENT = "transient"
"""Directory in the scratch space of a broker for what Java unpacks there."""

_PATIENCE_SECONDS = 600
_LOG_SHOWN = 1500

# Below the range that systems take for outgoing connections, so that nothing comes between the choice and the start.
_PORTS = range(12_000, 32_000)

# Distances from the port of the broker: a second one that it opens for producers, replication, name server, the group of DLedger.
_FAST, _BROKER, _REPLICATION, _NAME_SERVER, _DLEDGER = -2, 0, 1, 3, 4

# Names of cluster and broker are in names of topics; they are those that the samples were written with. Nothing expires, at no disk usage,
# and no thread pool is larger than a test needs.
_SETTINGS = {
    "brokerClusterName": "LabCluster",
    "brokerName": "broker-a",
    "brokerId": "0",
    "brokerIP1": "127.0.0.1",
    "brokerIP2": "127.0.0.1",
    "bindAddress": "127.0.0.1",
    "fileReservedTime": "87600",
    "cleanFileForciblyEnable": "false",
    "diskMaxUsedSpaceRatio": "99",
    "diskSpaceWarningLevelRatio": "99",
    "diskSpaceCleanForciblyRatio": "99",
    "osPageCacheBusyTimeOutMills": "60000",
    "waitTimeMillsInSendQueue": "60000",
    "waitTimeMillsInPullQueue": "60000",
    "timerCheckMetricsWhen": "25",
    "sendMessageThreadPoolNums": "2",
    "pullMessageThreadPoolNums": "2",
    "litePullMessageThreadPoolNums": "1",
    "queryMessageThreadPoolNums": "2",
    "adminBrokerThreadPoolNums": "1",
    "ackMessageThreadPoolNums": "1",
    "processReplyMessageThreadPoolNums": "1",
    "putMessageFutureThreadPoolNums": "1",
    "dispatchCqThreads": "1",
    "batchDispatchRequestThreadPoolNums": "1",
    "serverWorkerThreads": "2",
    "serverSelectorThreads": "1",
}

_LOGGING = """<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{path}</file>
    <encoder><pattern>%p %c - %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="file"/></root>
</configuration>
"""


@dataclass(frozen=True, slots=True)
class WholeStart:
    """What clients got: messages by queue and place in it, lookups, new messages and delayed ones that were sent then.

    `hidden`: topics that clients cannot pull as they were stored. `refused`: queues whose pull came to a standstill, and why.
    """

    queues: Mapping[QueueKey, Mapping[int, Line]]
    by_key: Mapping[tuple[str, str], tuple[int, ...]]
    by_id: Mapping[str, int | None]
    new: tuple[Line, ...]
    delayed: tuple[Line, ...]
    hidden: frozenset[str]
    refused: tuple[str, ...]
    caught_up: bool
    abort_left: bool

    def below(self, end: int) -> Start:
        """The part of it that lies below a physical offset: behind it a broker itself writes what falls due."""
        below = {
            queue: {place: line for place, line in of_queue.items() if line["physicalOffset"] < end}
            for queue, of_queue in self.queues.items()
        }
        return Start(
            pulled={queue: tuple(of_queue.values()) for queue, of_queue in below.items()},
            units={queue: {place: line["physicalOffset"] for place, line in of_queue.items()} for queue, of_queue in below.items()},
            by_key=self.by_key,
            by_id=self.by_id,
            new=(),
            changed=(),
            caught_up=self.caught_up,
            abort_left=self.abort_left,
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """What to ask for: queues as topic/id, keys as topic:key, offset message ids as topic:id, and whether to send new messages then.

    `compacted`: pull compacted topics from their compaction log, too.

    Before that messages are sent that fall due after so many seconds each (`delayed`) or have these delay `levels`, and `wait` seconds
    pass, or, if so many are told, until `messages` of them arrived.
    """

    queues: Sequence[str] = ()
    keys: Sequence[str] = ()
    ids: Sequence[str] = ()
    send: bool = False
    delayed: Sequence[int] = ()
    levels: Sequence[int] = ()
    wait: int = 0
    messages: int = 0
    compacted: bool = False


def require_broker(release: str) -> None:
    """Skips the test that calls it where Maven cannot get a broker of `release`."""
    try:
        prepared(release, WHOLE)
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of a broker {release}: {error}")


_RENAMED = ("mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue")


def configured(root: Path, settings: Mapping[str, str], scratch: Path) -> dict[str, Any]:
    """Writes the configuration of a broker on the store at `root` to `scratch`, a new directory; what Java has to know of it.

    The directory `TRANSIENT` in it is for what Java unpacks: its caller removes that in the end.
    """
    port = _free_port()
    (scratch / "logs" / "rocketmqlogs").mkdir(parents=True)  # RocksDB logs there and does not make the directories
    (scratch / "conf").mkdir()
    (scratch / TRANSIENT).mkdir()
    for name in ("logback_broker.xml", "logback_namesrv.xml"):
        (scratch / "conf" / name).write_text(_LOGGING.format(path=scratch / "broker.log"))
    conf = {
        **_SETTINGS,
        "storePathCommitLog": str(root / "commitlog"),  # up to 4.9.3 it is in the home directory otherwise
        **settings,
        # Up to 4.5.0 two settings have other names.
        **{name.replace("mapped", "maped"): value for name, value in settings.items() if name in _RENAMED},
        "storePathRootDir": str(root),
        "storePathEpochFile": str(root / "epochFileCheckpoint"),
        "storePathBrokerIdentity": str(root / "brokerIdentity"),
        "listenPort": str(port + _BROKER),
        "haListenPort": str(port + _REPLICATION),
        # A group of one member, which counts only with enableDLegerCommitLog.
        "dLegerGroup": "broker-a",
        "dLegerPeers": f"n0-127.0.0.1:{port + _DLEDGER}",
        "dLegerSelfId": "n0",
    }
    (scratch / "broker.conf").write_text("".join(f"{name}={value}\n" for name, value in conf.items()))
    return {"conf": str(scratch / "broker.conf"), "nameServerPort": port + _NAME_SERVER}


def start(release: str, root: Path, settings: Mapping[str, str], asked: Asked, scratch: Path) -> WholeStart:
    """Starts a broker on the store at `root`, in place, asks and stops it. Logs and whatever is transient go to `scratch`, a new directory.

    Raises NotServed if the broker does not start, answer or stop as it should, JarsMissing.
    """
    broker = configured(root, settings, scratch)
    job = {
        **broker,
        "queues": asked.queues,
        "keys": asked.keys,
        "ids": asked.ids,
        "send": asked.send,
        "delayed": asked.delayed,
        "levels": asked.levels,
        "wait": asked.wait,
        "messages": asked.messages,
        "compacted": asked.compacted,
    }
    (scratch / "job.json").write_text(json.dumps(job))
    _run(whole_command(release, scratch, scratch / TRANSIENT, str(scratch / "job.json"), str(scratch / "answer")), scratch)
    return _answer((scratch / "answer").read_text(encoding="utf-8").splitlines(), abort_left=(root / "abort").exists())


def _run(command: Sequence[str], scratch: Path) -> None:
    with (scratch / "output").open("w") as output:
        try:
            status = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, timeout=_PATIENCE_SECONDS).returncode
        except subprocess.TimeoutExpired:
            raise NotServed(f"the broker is not done after {_PATIENCE_SECONDS} s: {told(scratch)}") from None
        finally:
            shutil.rmtree(scratch / TRANSIENT)
    if status:
        raise NotServed(f"the broker ends with {status}: {told(scratch)}")


def told(scratch: Path) -> str:
    """The end of what the broker wrote to its log and its output."""
    return " | ".join(
        " ".join(path.read_text(errors="replace")[-_LOG_SHOWN:].split())
        for path in (scratch / "broker.log", scratch / "output")
        if path.exists()
    )


def _answer(text: Sequence[str], *, abort_left: bool) -> WholeStart:
    lines: list[dict[str, Any]] = [json.loads(line) for line in text]
    messages = by_queue(lines, "message")
    return WholeStart(
        queues={queue: {line["at"]: line for line in messages.get(queue, ())} for queue in by_queue(lines, "queue")},
        by_key={(line["topic"], line["key"]): tuple(line["physicalOffsets"]) for line in lines if line["kind"] == "key"},
        by_id={line["id"]: line["physicalOffset"] for line in lines if line["kind"] == "id"},
        new=tuple(line for line in lines if line["kind"] == "new"),
        delayed=tuple(line for line in lines if line["kind"] == "delayed"),
        hidden=frozenset(line["topic"] for line in lines if line["kind"] == "hidden"),
        refused=tuple(_refusals(lines)),
        caught_up=all(line["caughtUp"] for line in lines if line["kind"] == "end"),
        abort_left=abort_left,
    )


def _refusals(lines: Sequence[Line]) -> Iterator[str]:
    for line in lines:
        if line["kind"] == "refused":
            yield f"{line['queueTopic']}/{line['queue']} at {line['at']} of {line['end']}: {line['why']}"


def _free_port() -> int:
    """A port for a broker; those around it that it needs too are free."""
    while True:
        port = random.choice(_PORTS)
        try:
            with ExitStack() as bound:
                for distance in (_FAST, _BROKER, _REPLICATION, _NAME_SERVER, _DLEDGER):
                    bound.enter_context(socket.socket()).bind(("127.0.0.1", port + distance))
                return port
        except OSError:
            continue
