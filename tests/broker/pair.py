"""A slave of a busy broker: it copies the log of its master over the wire, and can be started as a master afterwards."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.broker.busy import SIZES
from tests.broker.consumed_messages import NotServed
from tests.broker.toolchain import whole_command
from tests.broker.whole_start import TRANSIENT, configured, told

MASTER: Mapping[str, str] = {**SIZES, "brokerRole": "ASYNC_MASTER"}
"""Settings of the master, and of a slave that became one."""

_PATIENCE = 120.0
_POLL = 0.05


class Slave:
    """A broker of `release` on the store at `root`, the slave of the one whose files are in `master`, its scratch directory."""

    def __init__(self, release: str, root: Path, scratch: Path, master: Path) -> None:
        """Raises NotServed, JarsMissing. Logs go to `scratch`, a new directory."""
        self.root, self._scratch = root, scratch
        settings = {**SIZES, "brokerRole": "SLAVE", "brokerId": "1"}
        job = {**configured(root, settings, scratch), "nameServerPort": json.loads((master / "job.json").read_text())["nameServerPort"]}
        (scratch / "job.json").write_text(json.dumps(job))
        words = whole_command(release, scratch, scratch / TRANSIENT, str(scratch / "job.json"), program="oracle.Replica")
        with (scratch / "output").open("w") as output:
            self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.kill()

    def wait_for(self, bytes_of_log: int) -> None:
        """Returns when the first so many bytes of the log are there; they are allocated as they come. Raises NotServed."""
        deadline = time.monotonic() + _PATIENCE
        while self.bytes_of_log() < bytes_of_log:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise NotServed(f"the slave does not copy the log: {told(self._scratch)}")
            time.sleep(_POLL)

    def bytes_of_log(self) -> int:
        """The end of the last byte that is not zero."""
        files = sorted(path for path in (self.root / "commitlog").glob("0*"))
        for path in reversed(files):
            data = path.read_bytes().rstrip(b"\0")
            if data:
                return int(path.name) + len(data)
        return 0

    def kill(self) -> None:
        """Ends it as a crash does. Once it has ended, nothing happens."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        shutil.rmtree(self._scratch / TRANSIENT, ignore_errors=True)
