"""A broker that is busy: a producer sends without an end, a consumer takes what comes, until the broker is killed or stopped."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.broker.consumed_messages import NotServed
from tests.broker.toolchain import whole_command
from tests.broker.whole_start import TRANSIENT, configured, told
from tests.support.waiting import PATIENCE

RELEASES = ("4.3.2", "4.5.2", "4.8.0", "4.9.7", "5.3.3", "5.5.1")
"""Whole brokers that can be had; nothing in a store of 4.9.8 differs from one of 4.9.7."""

SIZES: Mapping[str, str] = {
    "mappedFileSizeCommitLog": str(1 << 20),
    "mappedFileSizeConsumeQueue": str(200 * 20),
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
    "mappedFileSizeTimerLog": str(1 << 14),
    "flushConsumerOffsetInterval": "500",
    "flushDelayOffsetInterval": "500",
}
"""Files are so small that new ones of each kind come all the time."""

_PATIENCE = float(PATIENCE)
_STOP_SECONDS = 600
_POLL = 0.05
_IN_ROCKSDB = "[librocksdbjni"
"""How the JVM names the library of machine code that it died in."""


class BusyBroker:
    """A broker of `release` on the store at `root`, from the first acknowledged message on. Logs go to `scratch`, a new directory."""

    def __init__(
        self,
        release: str,
        root: Path,
        scratch: Path,
        *,
        rate: int,
        seed: int,
        settings: Mapping[str, str] = SIZES,
        name_server: int | None = None,
        table: bool = False,
        transactions: bool = False,
    ) -> None:
        """`rate` messages per second at most; `name_server`: port of one that runs, or None; `table`: every second message is a row of the
        compacted topic `table`; `transactions`: every fifth comes with a transaction. Raises NotServed, JarsMissing."""
        self.root = root
        self._scratch = scratch
        self._acknowledged = scratch / "acknowledged"
        joins = {} if name_server is None else {"joins": True, "nameServerPort": name_server}
        job = {**configured(root, settings, scratch), "rate": rate, "seed": seed, "table": table, "transactions": transactions, **joins}
        (scratch / "job.json").write_text(json.dumps(job))
        words = whole_command(
            release, scratch, scratch / TRANSIENT, str(scratch / "job.json"), str(self._acknowledged), program="oracle.Busy"
        )
        with (scratch / "output").open("w") as output:
            self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)

    def __enter__(self) -> Self:
        try:
            self.wait_for(bytes_of_log=1)
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.kill()

    def acknowledged(self) -> list[dict[str, Any]]:
        """The messages that the broker stored by now: topic, queue, queueOffset, physicalOffset; delayed ones where they wait."""
        whole = self._acknowledged.read_text(encoding="utf-8") if self._acknowledged.exists() else ""
        return [json.loads(line) for line in whole[: whole.rfind("\n") + 1].splitlines()]

    def wait_for(self, bytes_of_log: int) -> None:
        """Returns when a message is stored at or after this physical offset. Raises NotServed."""
        deadline = time.monotonic() + _PATIENCE
        while not any(line["physicalOffset"] >= bytes_of_log - 1 for line in self.acknowledged()[-1:]):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise NotServed(f"the broker does not take messages: {told(self._scratch)}")
            time.sleep(_POLL)

    @property
    def runs(self) -> bool:
        """Whether the broker and its producer still run."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Ends it as a crash does. Once it has ended, nothing happens."""
        self._process.kill()
        self._ended()

    def stop(self) -> None:
        """Stops it cleanly, unless RocksDB ends it: a broker of 5.3.3 can read there from what it has closed. Raises NotServed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            status = self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            status = None
        self.kill()
        if status != 0 and not (status == -signal.SIGABRT and _IN_ROCKSDB in (self._scratch / "output").read_text(errors="replace")):
            raise NotServed(f"the broker does not stop, {status}: {told(self._scratch)}")

    def _ended(self) -> None:
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        shutil.rmtree(self._scratch / TRANSIENT, ignore_errors=True)


def delete_empty_files(root: Path) -> None:
    """Deletes files of the store that were made just before the broker was killed: none starts with them."""
    for file in root.glob("*/**/0*"):
        if file.is_file() and not file.stat().st_size:
            file.unlink()
