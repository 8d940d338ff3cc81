"""The command to run next for a finding, spelled out with path and options, so that it can be copied."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rmqstore.findings import Finding


@dataclass(frozen=True, slots=True)
class Commands:
    """Writes commands about one store. `settings` are words that every command on it needs, `release` is "" where none was asked for."""

    store: Path
    settings: Sequence[str] = ()
    release: str = ""

    def verify(self, *words: str) -> str:
        """`rmqstore verify STORE ...`."""
        return self._command("verify", self.store, *words, *self.settings)

    def dump(self, path: Path, *words: str) -> str:
        """`rmqstore dump PATH ...`."""
        return self._command("dump", path, *words, *(self.settings if path == self.store else ()))

    def recover(self, *words: str) -> str:
        """`rmqstore recover STORE --dry-run ...`."""
        release = ("--broker-version", self.release) if self.release and not any("version=" in word for word in words) else ()
        return self._command("recover", self.store, "--dry-run", *words, *release, *self.settings)

    def info(self) -> str:
        """`rmqstore info STORE`."""
        return self._command("info", self.store, *self.settings)

    def explain(self, code: str) -> str:
        """`rmqstore explain CODE`."""
        return self._command("explain", code)

    def _command(self, name: str, *words: Path | str) -> str:
        return shlex.join(["rmqstore", name, *map(str, words)])


Step = Callable[[Commands, Finding], str]

WAYS_TO_START = ("--what-if", "abort=present,absent", "--what-if", "checkpoint=kept,removed")


def _log(commands: Commands, finding: Finding) -> str:
    if finding.offset is None:
        return commands.verify("--part", "commitlog")
    return commands.dump(commands.store, "--part", "commitlog", "--from-offset", str(finding.offset), "--limit", "5")


def _queue(commands: Commands, finding: Finding) -> str:
    topic = ("--topic", finding.topic) if finding.topic is not None else ()
    return commands.verify("--part", "consumequeue", *topic)


def _part(part: str) -> Step:
    return lambda commands, finding: commands.verify("--part", part)


def _backup(commands: Commands, finding: Finding) -> str:
    """What the other one of a JSON file and its `.bak` holds, if it is there."""
    if finding.file is not None:
        path = commands.store / finding.file
        other = path.with_suffix("") if path.suffix == ".bak" else path.with_name(path.name + ".bak")
        if other.is_file():
            return commands.dump(other)
    return commands.verify("--part", "config")


def _ways(commands: Commands, finding: Finding) -> str:
    return commands.recover(*WAYS_TO_START)


# By code; then by the part that the code names.
_BY_CODE: Mapping[str, Step] = {
    "RMQ-ST-NO-START": lambda commands, finding: commands.recover(),
    "RMQ-ST-CUT": _ways,
    "RMQ-CQ-START": _ways,
    "RMQ-ST-ABORT": lambda commands, finding: commands.recover("--what-if", "abort=present,absent"),
    "RMQ-ST-ABORT-GONE": lambda commands, finding: commands.recover("--what-if", "abort=present,absent"),
    "RMQ-ST-RELEASE": lambda commands, finding: commands.recover("--what-if", "version=all"),
    "RMQ-ST-IN-USE": lambda commands, finding: commands.info(),
    "RMQ-ST-PATH": lambda commands, finding: commands.info(),
    "RMQ-ST-EMPTY": lambda commands, finding: commands.info(),
    "RMQ-ST-SPACE": lambda commands, finding: commands.info(),
    "RMQ-CL-EMPTY": lambda commands, finding: commands.info(),
    "RMQ-CP-MISSING": lambda commands, finding: commands.recover("--what-if", "abort=present,absent"),
    "RMQ-CP-INDEX": _part("index"),
    "RMQ-CF-JSON": _backup,
    "RMQ-CF-EMPTY": _backup,
    "RMQ-CF-MISSING": _backup,
    "RMQ-CF-BAK": _backup,
}
_BY_PART: Mapping[str, Step] = {
    "CL": _log,
    "CQ": _queue,
    "IX": _part("index"),
    "CP": lambda commands, finding: commands.dump(commands.store, "--part", "checkpoint"),
    "TM": _part("timer"),
    "CF": _part("config"),
}


def next_step(commands: Commands, finding: Finding) -> str:
    """The command that tells more about the finding, or what can be done."""
    step = _BY_CODE.get(finding.code) or _BY_PART.get(finding.code.split("-")[1])
    return commands.explain(finding.code) if step is None else step(commands, finding)
