"""A slave of a busy broker: it copies the log of its master over the wire, and can be started as a master afterwards."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.broker.busy import SIZES, delete_empty_files
from tests.broker.consumed_messages import NotServed
from tests.broker.toolchain import CONTROLLED, prepared, whole_command
from tests.broker.whole_start import TRANSIENT, configured, told
from tests.support.cli import rmqstore
from tests.support.waiting import PATIENCE

MASTER: Mapping[str, str] = {**SIZES, "brokerRole": "ASYNC_MASTER"}
"""Settings of the master, and of a slave that became one."""
SLAVE: Mapping[str, str] = {**SIZES, "brokerRole": "SLAVE", "brokerId": "1"}

_PATIENCE = float(PATIENCE)
_POLL = 0.05


class Process:
    """A program of the harness that runs until it is killed. A context manager."""

    def __init__(self, scratch: Path, command: Sequence[str]) -> None:
        """Logs go to `scratch`."""
        self.scratch = scratch
        with (scratch / "output").open("w") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.kill()

    @property
    def runs(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Ends it as a crash does. Once it has ended, nothing happens."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        shutil.rmtree(self.scratch / TRANSIENT, ignore_errors=True)


class Slave(Process):
    """A broker of `release` on the store at `root`, the slave of the one whose files are in `master`, its scratch directory."""

    def __init__(self, release: str, root: Path, scratch: Path, master: Path, settings: Mapping[str, str] = SLAVE) -> None:
        """Raises NotServed, JarsMissing. Logs go to `scratch`, a new directory."""
        self.root = root
        job = {**configured(root, settings, scratch), "nameServerPort": json.loads((master / "job.json").read_text())["nameServerPort"]}
        (scratch / "job.json").write_text(json.dumps(job))
        super().__init__(scratch, whole_command(release, scratch, scratch / TRANSIENT, str(scratch / "job.json"), program="oracle.Replica"))

    def wait_for(self, bytes_of_log: int) -> None:
        """Returns when the first so many bytes of the log are there; they are allocated as they come. Raises NotServed."""
        deadline = time.monotonic() + _PATIENCE
        while self.bytes_of_log() < bytes_of_log:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise NotServed(f"the slave does not copy the log: {told(self.scratch)}")
            time.sleep(_POLL)

    def bytes_of_log(self) -> int:
        """The end of the last byte that is not zero."""
        files = sorted(path for path in (self.root / "commitlog").glob("0*"))
        for path in reversed(files):
            data = path.read_bytes().rstrip(b"\0")
            if data:
                return int(path.name) + len(data)
        return 0


def compared(first: Path, second: Path) -> dict[str, Any]:
    """The answer of `diff`."""
    run = rmqstore("diff", first, second, "--format", "json")
    assert run.status in (0, 1) and not run.crashed, run.err
    return dict(run.objects[0])


def compared_with_killed(master: Path, slave: Path) -> dict[str, Any]:
    """The answer of `diff` for a slave that was killed, without what the kill itself left.

    A kill can tear the last record within its properties: brokers take it as it is, `diff` finds it, and it is taken from the master.
    """
    found = compared(master, slave)
    if found["relation"] == "damaged":
        [torn] = found["records"]
        assert (torn["offset"] + torn["size"], torn["valid_in"]) == (found["second"]["end"], "first")
        assert "in the last record that both have" in found["verdict"]
        assert rmqstore("recover", slave, "--from", master, "--yes", "--quiet").status == 0
        found = compared(master, slave)
    delete_empty_files(slave)
    return found


class ControllerProcess(Process):
    """A controller and a name server at ports of their own; it chooses a master also among brokers that are behind."""

    def __init__(self, release: str, scratch: Path) -> None:
        """Raises JarsMissing. Logs go to `scratch`, a new directory."""
        prepared(release, CONTROLLED)
        job = configured(scratch / "nothing", {}, scratch)
        self.name_server, self.port = job["nameServerPort"], job["nameServerPort"] + 1
        (scratch / "job.json").write_text(json.dumps({**job, "controllerPort": self.port}))
        command = whole_command(
            release, scratch, scratch / TRANSIENT, str(scratch / "job.json"), program="oracle.Controller", kit=CONTROLLED
        )
        super().__init__(scratch, command)

    @property
    def settings(self) -> dict[str, str]:
        """The settings of brokers that it controls."""
        return {**SIZES, "enableControllerMode": "true", "controllerAddr": f"127.0.0.1:{self.port}", "brokerId": "-1"}
