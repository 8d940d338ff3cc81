"""The comparison of one store with another: log, derived parts, and one sentence about both."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from rmqstore.diff.copies import Copy, Range
from rmqstore.diff.derived import Derived, compare_derived
from rmqstore.diff.logs import LogDifference, Passes, Validity, compare_logs
from rmqstore.jsonschema import SCHEMA
from rmqstore.reading.progress import Advance, silent
from rmqstore.shellwords import quoted
from rmqstore.wording import counted

_COUNTED = 1 << 30


class Relation(StrEnum):
    """The relation of two logs as far as they were compared."""

    SAME = "same"
    PREFIX = "prefix"
    DAMAGED = "damaged"
    DIVERGED = "diverged"
    GAPS = "gaps"
    APART = "apart"


@dataclass(frozen=True)
class Comparison:
    """The result for two copies. `ahead`: the one whose log ends later, with the messages that only it has if they were counted."""

    one: Copy
    other: Copy
    log: LogDifference
    derived: Derived
    more_messages: int | None
    after_end: tuple[str, ...] = ()

    @property
    def relation(self) -> Relation:
        """Return the relation of the logs."""
        begin, end = self.log.common
        if begin == end and self.one.begin != self.one.end and self.other.begin != self.other.end:
            return Relation.APART
        if self.log.first is not None:
            return Relation.DAMAGED if self.log.diverged is None else Relation.DIVERGED
        if any(begin < low < end or begin < high < end for low, high in (*self.only_one, *self.only_other)):
            return Relation.GAPS
        return Relation.SAME if (self.one.begin, self.one.end) == (self.other.begin, self.other.end) else Relation.PREFIX

    @property
    def agree(self) -> bool:
        """Return whether no difference was found: the logs are the same, or one continues the other."""
        return self.relation in (Relation.SAME, Relation.PREFIX)

    @cached_property
    def only_one(self) -> list[Range]:
        """Return the ranges that only the first log has."""
        return self.one.without(self.other)

    @cached_property
    def only_other(self) -> list[Range]:
        """Return the ranges that only the second log has."""
        return self.other.without(self.one)

    @property
    def verdict(self) -> str:
        """Return what the comparison found, in one or two sentences."""
        return f"{_VERDICTS[self.relation](self)}{_reservation(self)}"

    @property
    def next(self) -> str | None:
        """Return what to do about a difference, None if there is nothing to do."""
        if self.relation is Relation.DIVERGED:
            sure = "" if self.log.whole else "; first compare all of both logs with --deep, the difference may begin earlier"
            led, leader = self._followers
            name = quoted(led.name)
            cut = name if led.is_local else "COPY"
            fetched = "" if led.is_local else ", once it is copied to this machine"
            return f"to let {name} follow {quoted(leader.name)}, cut it{fetched}: rmqstore truncate {cut} --at {self.log.diverged}{sure}"
        lines = self._healing
        return f"take from the other copy what is damaged: {'; '.join(lines)}" if lines else None

    @property
    def command(self) -> str | None:
        """Return the command to run next, None if there is none; one that changes a store shows its plan alone."""
        one, other = quoted(self.one.name), quoted(self.other.name)
        if self.relation is Relation.DIVERGED:
            led, _ = self._followers
            cut = f"rmqstore truncate {quoted(led.name)} --at {self.log.diverged} --dry-run" if led.is_local else None
            return cut if self.log.whole else f"rmqstore diff {one} {other} --deep"
        if self.relation is Relation.GAPS:
            gapped = self.one if len(self.one.written()) > 1 else self.other
            return f"rmqstore doctor {quoted(gapped.name)}" if gapped.is_local else None
        return next((f"{line} --dry-run" for line in self._healing), None)

    @property
    def _followers(self) -> tuple[Copy, Copy]:
        """Return the copy that has to follow, and the one that leads: with the later mastership by the epochs, or else the first one."""
        last = [max((entry["epoch"] for entry in self.derived.epochs.get(name) or ()), default=-1) for name in ("first", "second")]
        return (self.one, self.other) if last[1] > last[0] else (self.other, self.one)

    @property
    def _healing(self) -> list[str]:
        """Return the commands that take damaged records from the other copy."""
        if self.relation is not Relation.DAMAGED:
            return []
        pairs = ((Validity.SECOND, self.one, self.other), (Validity.FIRST, self.other, self.one))
        return [
            f"rmqstore recover {quoted(damaged.name)} --from {quoted(copy.name)}"
            for valid, damaged, copy in pairs
            if self.log.counts[valid] and damaged.is_local
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the object that JSON output shows (docs/json.md)."""
        log = self.log
        return {
            "type": "diff",
            "schema": SCHEMA,
            "first": _ends(self.one),
            "second": _ends(self.other),
            "verdict": self.verdict,
            "next": self.next,
            "relation": str(self.relation),
            "first_difference": log.first,
            "record": log.record,
            "diverged_at": log.diverged,
            "whole": log.whole,
            "common": list(log.common),
            "compared_bytes": log.compared,
            "only_first": [list(one) for one in self.only_one],
            "only_second": [list(one) for one in self.only_other],
            "more_messages": self.more_messages,
            "differing": {str(name): count for name, count in log.counts.items()},
            "records": [asdict(record) for record in log.records],
            "unused_bytes_differ": log.unused,
            **self.derived.as_json(),
        }


def compare(one: Copy, other: Copy, *, deep: bool, now: int, passes: Passes | None = None, advance: Advance = silent) -> Comparison:
    """Return the comparison of two copies; `deep`: all of their logs, `passes` as for `compare_logs`.

    Raises UnreadableError, StoreChangedError.
    """
    log = compare_logs(one, other, deep=deep, passes=passes, advance=advance)
    after_end = tuple(copy.name for copy in (one, other) if copy.bytes_after_end(whole=log.whole))
    return Comparison(one, other, log, compare_derived(one, other, now), _more(one, other, deep=deep), after_end)


def _more(one: Copy, other: Copy, *, deep: bool) -> int | None:
    """Count the messages after the end of the log that ends first; None if they are too many to be counted without `deep`."""
    ahead, short = (one, other) if one.end >= other.end else (other, one)
    begin = max(short.end, ahead.begin)
    return ahead.messages(begin, ahead.end) if deep or ahead.end - begin <= _COUNTED else None


def _ends(copy: Copy) -> dict[str, Any]:
    return {"store": copy.name, "begin": copy.begin, "end": copy.end, "last_store_timestamp": copy.last_time, "in_use": copy.in_use}


def _same(found: Comparison) -> str:
    begin, end = found.log.common
    return f"{found.other.name} and {found.one.name} are the same from {begin} to {end}"


def _prefix(found: Comparison) -> str:
    ahead, short = (found.one, found.other) if found.one.end >= found.other.end else (found.other, found.one)
    more = f"{ahead.end - short.end} bytes" if found.more_messages is None else counted(found.more_messages, "message")
    up_to = "" if short.last_time is None else f" up to {_time(short.last_time)}"
    tail = f"; {ahead.name} has {more} more" if ahead.end > short.end else ""
    later = max(found.one.begin, found.other.begin)
    head = "" if found.one.begin == found.other.begin else f"; they begin at {found.one.begin} and {found.other.begin}, both have {later}"
    return f"{short.name} is {ahead.name}{up_to}{tail}{head}; no conflict"


def _diverged(found: Comparison) -> str:
    log = found.log
    return (
        f"{found.one.name} and {found.other.name} diverge at offset {log.diverged}: both have valid records there that are not the same; "
        f"the first differing byte is at {log.first}"
    )


def _damaged(found: Comparison) -> str:
    counts = found.log.counts
    texts = (
        (Validity.FIRST, f"{counted(counts[Validity.FIRST], 'record')} valid in {found.one.name} alone"),
        (Validity.SECOND, f"{counted(counts[Validity.SECOND], 'record')} valid in {found.other.name} alone"),
        (Validity.BOTH, f"{counted(counts[Validity.BOTH], 'record')} valid in both and not the same"),
        (Validity.NEITHER, f"{counted(counts[Validity.NEITHER], 'range')} valid in neither"),
    )
    listed = ", ".join(text for validity, text in texts if counts[validity])
    last = sum(counts.values()) == 1 and found.log.records[0].offset + found.log.records[0].size >= found.log.common[1]
    after = "in the last record that both have" if last else "and the records after it are the same again"
    return f"they differ at offset {found.log.first}, {after}: {listed}"


def _gaps(found: Comparison) -> str:
    return f"no byte that both have differs, but files are missing inside a log: {_listed(found)}"


def _apart(found: Comparison) -> str:
    one, other = found.one, found.other
    return f"they have no byte in common: {one.name} has {one.begin} to {one.end}, {other.name} {other.begin} to {other.end}"


_VERDICTS = {
    Relation.SAME: _same,
    Relation.PREFIX: _prefix,
    Relation.DIVERGED: _diverged,
    Relation.DAMAGED: _damaged,
    Relation.GAPS: _gaps,
    Relation.APART: _apart,
}


def _listed(found: Comparison) -> str:
    ranges = [(found.one.name, one) for one in found.only_one] + [(found.other.name, one) for one in found.only_other]
    return ", ".join(f"only {name} has {low} to {high}" for name, (low, high) in ranges[:4])


def _reservation(found: Comparison) -> str:
    """Return what the verdict does not cover."""
    log = found.log
    begin, end = log.common
    said = "" if log.whole else f" (compared: {log.compared} of {end - begin} bytes that both have; --deep compares all)"
    if found.after_end:
        said += f"; bytes that are no record follow the end of {' and '.join(found.after_end)}"
    running = [copy.name for copy in (found.one, found.other) if copy.in_use]
    return said + (f"; in use: {' and '.join(running)}" if running else "")


def _time(milliseconds: int) -> str:
    from rmqstore.times import time_text

    return str(time_text(milliseconds))
