"""The command to run next, for a finding and for the whole store, with path and options in full, so that it can be copied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rmqstore import shellwords
from rmqstore.doctor.areas import Area
from rmqstore.doctor.verdict import Class, Verdict, area_of
from rmqstore.findings import Finding, Severity
from rmqstore.store.access import way_to_read
from rmqstore.store.parts import PartKind


@dataclass(frozen=True, slots=True)
class Commands:
    """The commands about one store. `settings` are words that every command on it needs, `release` is "" where none was asked for.

    `repairs`: whether commands may change the store; they show a plan and ask before they do. `resume_commands` are the commands that end a
    repair that was stopped in the middle.
    """

    store: Path
    settings: Sequence[str] = ()
    release: str = ""
    repairs: bool = True
    resume_commands: Sequence[str] = ()

    def verify(self, *words: str) -> str:
        """Return `rmqstore verify STORE ...`."""
        return self._command("verify", self.store, *words, *self.settings)

    def dump(self, path: Path, *words: str) -> str:
        """Return `rmqstore dump PATH ...`."""
        return self._command("dump", path, *words, *(self.settings if path == self.store else ()))

    def predict(self, *words: str) -> str:
        """Return `rmqstore recover STORE --dry-run ...`."""
        release = () if any("version=" in word for word in words) else self._release()
        return self._command("recover", self.store, "--dry-run", *words, *release, *self.settings)

    def repair(self, command: str, *words: str) -> str | None:
        """Return `rmqstore COMMAND STORE ...`, None where nothing should be changed yet."""
        return self._command(command, self.store, *words, *self._release(), *self.settings) if self.repairs else None

    def info(self) -> str:
        """Return `rmqstore info STORE`."""
        return self._command("info", self.store, *self.settings)

    def explain(self, code: str) -> str:
        """Return `rmqstore explain CODE`."""
        return self._command("explain", code)

    def change_setting(self, expected: str) -> str:
        """Return the line that puts the setting `expected` into broker.conf, or without the file `doctor` with the setting."""
        key = expected.partition("=")[0]
        words = list(self.settings)
        conf = words[words.index("--broker-conf") + 1] if "--broker-conf" in words else None
        if conf is not None and not any(word.partition("=")[0] == key for word in words):
            return f"{shellwords.command('echo', expected)} >> {shellwords.quoted(conf)}"
        pairs = [(option, value) for option, value in zip(words[::2], words[1::2], strict=True) if value.partition("=")[0] != key]
        kept = [word for pair in pairs for word in pair]
        return self._command("doctor", self.store, *kept, "--set", expected, *self._release())

    def grant_access(self, finding: Finding) -> str:
        """Return the line that gives a file the owner of the store's root, or its owner permission to use it, or `doctor` as that owner."""
        path = self.store / finding.file if finding.file is not None else self.store
        return way_to_read(path, self.store, ("rmqstore", "doctor", self.store, *self._release(), *self.settings))

    def _release(self) -> Sequence[str]:
        return ("--broker-version", self.release) if self.release else ()

    def _command(self, name: str, *words: Path | str) -> str:
        return shellwords.command("rmqstore", name, *words)


Step = Callable[[Commands, Finding], str]

WAYS_TO_START = ("--what-if", "abort=present,absent", "--what-if", "checkpoint=kept,removed")


# With one of these, nothing should be changed before the user has seen to it: a broker runs, or files are not where they should be.
_NO_REPAIR = frozenset(
    {
        *("RMQ-ST-IN-USE", "RMQ-ST-PATH", "RMQ-ST-EMPTY", "RMQ-CL-EMPTY", "RMQ-CL-NORECORD", "RMQ-ST-UNREADABLE"),
        *("RMQ-ST-UNFINISHED", "RMQ-ST-TRANSACTION"),
    }
)


# Errors of the timer that follow from others, in the log or in the timer log, and are gone after a recovery.
_REPAIRED_IN_TIMER = frozenset(
    {"RMQ-TM-MESSAGE", "RMQ-TM-WHEEL-BEYOND", "RMQ-TM-WHEEL-LENGTH", "RMQ-TM-WHEEL-SLOT", "RMQ-TM-LOG-UNIT", "RMQ-TM-LOG-FILELEN"}
    | {"RMQ-TM-LOST"}
)


def _no_start(commands: Commands, finding: Finding) -> str:
    """Return the step: files of the configuration are written from what is left, and a lock is held by a broker."""
    return commands.repair("recover") or (_restore(commands, finding) if _of_configuration(finding) else commands.info())


def _of_configuration(finding: Finding) -> bool:
    return finding.file is not None and finding.file.startswith("config/")


def _cut(commands: Commands, finding: Finding) -> str:
    return commands.repair("recover") or commands.predict(*WAYS_TO_START)


def _of_error(commands: Commands, finding: Finding, command: str, *words: str) -> str | None:
    """Return the repair, if the finding is an error."""
    return commands.repair(command, *words) if finding.severity is Severity.ERROR else None


def _log(commands: Commands, finding: Finding) -> str:
    repair = _of_error(commands, finding, "recover")
    if repair is not None:
        return repair
    if finding.offset is None:
        return commands.verify("--part", "commitlog")
    return commands.dump(commands.store, "--part", "commitlog", "--from-offset", str(finding.offset), "--limit", "5")


def _queue(commands: Commands, finding: Finding) -> str:
    topic = ("--topic", finding.topic) if finding.topic is not None else ()
    queue = ("--queue", f"{finding.topic}/{finding.queue_id}") if topic and finding.queue_id is not None else topic
    return _of_error(commands, finding, "rebuild-consumequeue", *queue) or commands.verify("--part", "consumequeue", *topic)


def _index(commands: Commands, finding: Finding) -> str:
    return _of_error(commands, finding, "rebuild-index") or commands.verify("--part", "index")


def _checkpoint(commands: Commands, finding: Finding) -> str:
    repair = commands.repair("rebuild-checkpoint") if finding.severity is not Severity.INFO else None
    return repair or commands.dump(commands.store, "--part", "checkpoint")


def _part(part: str) -> Step:
    return lambda commands, finding: commands.verify("--part", part)


def _timer(commands: Commands, finding: Finding) -> str:
    repair = _of_error(commands, finding, "recover") if finding.code in _REPAIRED_IN_TIMER else None
    return repair or commands.verify("--part", "timer")


def _timer_file(commands: Commands, finding: Finding) -> str:
    """Return the repair of wheel, timer log and timercheck; other files have to be brought back."""
    is_built = (finding.file or "").startswith((PartKind.TIMERWHEEL, PartKind.TIMERLOG, "config/timercheck"))
    return (commands.repair("recover") if is_built else None) or commands.explain(finding.code)


def _backup(commands: Commands, finding: Finding) -> str:
    """Return the repair of an error, or the command that shows the other one of a JSON file and its `.bak`, if it exists."""
    repair = _of_error(commands, finding, "recover")
    if repair is not None:
        return repair
    if finding.file is not None:
        path = commands.store / finding.file
        other = path.with_suffix("") if path.suffix == ".bak" else path.with_name(path.name + ".bak")
        if other.is_file():
            return commands.dump(other)
    return commands.verify("--part", "config")


def _compare(commands: Commands, finding: Finding) -> str:
    """Return the command that compares a JSON file with its `.bak`, of which one is damaged."""
    path = commands.store / (finding.file or "")
    return shellwords.command("diff", path, path.with_name(path.name + ".bak"))


def _restore(commands: Commands, finding: Finding) -> str:
    """Return the repair, which writes the file again; else the text about what to do."""
    code = "RMQ-CF-LOST" if finding.code == "RMQ-ST-NO-START" else finding.code
    return commands.repair("recover") or commands.explain(code)


def _recover(commands: Commands, finding: Finding) -> str:
    """Return the repair of the whole store, which also moves what no broker puts there out of it."""
    return commands.repair("recover") or commands.explain(finding.code)


def _where_log_should_be(commands: Commands, finding: Finding) -> str:
    """Return the command that shows which volume is in the place of the commit log."""
    path = commands.store / finding.file if finding.file is not None else commands.store
    there = next((place for place in (path, *path.parents) if place.is_dir()), commands.store)
    return shellwords.command("df", "-h", there)


def _link(commands: Commands, finding: Finding) -> str:
    """Return `verify` with the setting that names the target of a part; any other link is explained."""
    return commands.explain(finding.code) if finding.expected is None else commands.verify("--set", str(finding.expected))


# By code; then by the part that the code names.
_BY_CODE: Mapping[str, Step] = {
    "RMQ-ST-UNFINISHED": lambda commands, finding: commands.resume_commands[0],
    "RMQ-ST-LINK": _link,
    "RMQ-ST-NO-START": _no_start,
    "RMQ-ST-CUT": _cut,
    "RMQ-CQ-START": _cut,
    "RMQ-ST-SETTING": lambda commands, finding: commands.change_setting(str(finding.expected)),
    "RMQ-ST-OWNER": lambda commands, finding: commands.grant_access(finding),
    "RMQ-ST-MODE": lambda commands, finding: commands.grant_access(finding),
    "RMQ-ST-UNREADABLE": lambda commands, finding: commands.grant_access(finding),
    "RMQ-ST-KIND": _recover,
    "RMQ-ST-FOREIGN": _recover,
    "RMQ-CQ-BEYOND": lambda commands, finding: _of_error(commands, finding, "recover") or _queue(commands, finding),
    "RMQ-CF-LOST": _restore,
    "RMQ-CF-DELAY": _recover,
    "RMQ-TM-GONE": _timer_file,
    "RMQ-CM-POSITION": lambda commands, finding: commands.explain(finding.code),
    "RMQ-IX-INCOMPLETE": lambda commands, finding: commands.repair("rebuild-index") or commands.verify("--part", "index"),
    "RMQ-ST-ABORT": lambda commands, finding: commands.predict("--what-if", "abort=present,absent"),
    "RMQ-ST-ABORT-GONE": lambda commands, finding: commands.predict("--what-if", "abort=present,absent"),
    "RMQ-ST-RELEASE": lambda commands, finding: commands.predict("--what-if", "version=all"),
    "RMQ-ST-IN-USE": lambda commands, finding: commands.info(),
    "RMQ-ST-PATH": lambda commands, finding: commands.info(),
    "RMQ-ST-EMPTY": lambda commands, finding: commands.info(),
    "RMQ-ST-SPACE": lambda commands, finding: commands.info(),
    "RMQ-CL-EMPTY": _where_log_should_be,
    "RMQ-CL-NORECORD": _where_log_should_be,
    "RMQ-CP-INDEX": lambda commands, finding: commands.repair("recover") or commands.verify("--part", "index"),
    "RMQ-CF-JSON": _backup,
    "RMQ-CF-EMPTY": _backup,
    "RMQ-CF-NAME": _backup,
    "RMQ-CF-MISSING": _backup,
    "RMQ-CF-BAK": _backup,
    "RMQ-CF-DIFFERS": _compare,
    "RMQ-CF-OFFSET": lambda commands, finding: _of_error(commands, finding, "recover") or commands.verify("--part", "config"),
}
_BY_PART: Mapping[str, Step] = {
    "CL": _log,
    "CQ": _queue,
    "IX": _index,
    "CP": _checkpoint,
    "TM": _timer,
    "CF": _part("config"),
    "CM": _recover,
    "DL": _recover,
}


def may_repair(findings: Sequence[Finding]) -> bool:
    """Return whether a repair can be planned for a store with these findings."""
    return not any(finding.code in _NO_REPAIR for finding in findings)


def next_step(commands: Commands, finding: Finding) -> str:
    """Return the command that repairs or shows what was found. One that changes the store shows a plan and asks first."""
    step = _BY_CODE.get(finding.code) or _BY_PART.get(finding.code.split("-")[1])
    return commands.explain(finding.code) if step is None else step(commands, finding)


_RECOVERED = frozenset({"CL", "CQ", "IX", "CP"})
"""Parts that agree after a recovery, so that the start after it is a clean one and deletes no index file."""
_ONE_BY_ONE = frozenset({"CQ", "IX"})
"""Parts with a repair of their own."""
START = "Start the broker."
CUTS_ITSELF = "Start the broker: it will cut the unfinished record itself."
GONE = "Start the broker: only another copy of the store can have what is gone."
_OF_CONFIGURATION = frozenset({Area.PROGRESS, Area.TRANSACTIONS, Area.DELAYED})


def the_next_step(commands: Commands, verdict: Verdict, findings: Sequence[Finding]) -> str:
    """Return the one step for the whole store: a command, or to start the broker. `findings` are in the order of danger."""
    if commands.resume_commands:
        return commands.resume_commands[0]
    if verdict.cls is Class.NOTHING_LOST:
        return CUTS_ITSELF if any(finding.code == "RMQ-CL-TORN" for finding in findings) else START
    unread = next((finding for finding in findings if finding.code == "RMQ-ST-UNREADABLE"), None)
    if unread is not None and verdict.cls is Class.NOT_SURE:
        return next_step(commands, unread)
    setting = next((finding for finding in findings if finding.code == "RMQ-ST-SETTING"), None)
    if setting is not None and verdict.cls is not Class.NOT_SURE:  # with a wrong size no repair is correct
        return next_step(commands, setting)
    harmed = {effect.area for effect in verdict.effects if effect.state is verdict.effects[0].state}
    about = [finding for finding in findings if area_of(finding) in harmed]
    relevant = [finding for finding in about if finding.severity is not Severity.INFO or finding.code == "RMQ-CP-INDEX"]
    if not relevant:
        if verdict.cls is not Class.STARTS_BUT:
            return commands.verify()
        return GONE if harmed <= _OF_CONFIGURATION else commands.repair("recover") or commands.verify()
    crashed = any(finding.code == "RMQ-ST-ABORT" for finding in findings)
    if crashed and verdict.cls is Class.STARTS_BUT and relevant[0].code.split("-")[1] in _RECOVERED:
        return commands.repair("recover") or next_step(commands, relevant[0])
    # A finding that costs something is worth a repair, also where a crash explains it.
    costs = verdict.cls in (Class.DOES_NOT_START, Class.STARTS_BUT)
    first = _of_all_queues(relevant)
    if costs and first.code.split("-")[1] in _ONE_BY_ONE and len(_damaged_parts(findings)) > 1:
        return commands.repair("recover") or next_step(commands, first)
    return next_step(commands, replace(first, severity=Severity.ERROR) if costs else first)


def _damaged_parts(findings: Sequence[Finding]) -> set[str]:
    """Return the parts of log, queues and index with findings that a repair of another part alone would leave."""
    parts = {finding.code.split("-")[1] for finding in findings if finding.severity is not Severity.INFO}
    return parts & {"CL", *_ONE_BY_ONE}


def _of_all_queues(findings: Sequence[Finding]) -> Finding:
    """Return the first finding; without the queue where others are about more queues, without the topic where about several topics."""
    first = findings[0]
    if first.queue_id is None:
        return first
    queues = {(one.topic, one.queue_id) for one in findings if one.code == first.code}
    topic = first.topic if len({topic for topic, _ in queues}) == 1 else None
    return replace(first, topic=topic, queue_id=first.queue_id if len(queues) == 1 else None)
