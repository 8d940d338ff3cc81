"""The kind of cure that a diagnosed store needs."""

from __future__ import annotations

from enum import StrEnum

from rmqstore.doctor.diagnosis import Diagnosis
from rmqstore.doctor.nextsteps import START, Commands
from rmqstore.findings import Severity

_REPAIRS = frozenset({"recover", "rebuild-consumequeue", "rebuild-index", "rebuild-checkpoint"})

_GONE = frozenset({"RMQ-CL-REMOVED"})
"""Errors about messages that were gone before."""


class Cure(StrEnum):
    """The cure: the start of the broker, a repair, a setting, a command that the user runs first; none while the store is in use."""

    START = "start"
    REPAIR = "repair"
    SETTING = "setting"
    COMMAND = "command"
    IN_USE = "in-use"


def cure_of(diagnosis: Diagnosis) -> Cure:
    """Return the cure that the next step of a diagnosis is."""
    codes = {finding.code for finding in diagnosis.findings}
    if "RMQ-ST-IN-USE" in codes:
        return Cure.IN_USE
    if diagnosis.nothing_lost:
        return Cure.START
    words = diagnosis.next.split(" ")
    if words[0] == "rmqstore" and words[1] in _REPAIRS and "--dry-run" not in words:
        return Cure.REPAIR
    changes_setting = "RMQ-ST-SETTING" in codes and (words[0] == "echo" or words[:2] == ["rmqstore", "doctor"])
    return Cure.SETTING if changes_setting else Cure.COMMAND


def after_repair(diagnosis: Diagnosis, commands: Commands, *, complete: bool, whole: bool) -> str:
    """Return the step after a repair, never the same repair again.

    `complete`: it left neither errors nor anything to do. `whole`: it was one of the whole store.
    """
    if not complete:
        return (None if whole else commands.repair("recover")) or commands.verify()
    if cure_of(diagnosis) is not Cure.REPAIR:
        return diagnosis.next
    errors = {finding.code for finding in diagnosis.findings if finding.severity is Severity.ERROR}
    # What is gone for good cannot be repaired, and a start changes nothing about it.
    return START if diagnosis.starts and errors <= _GONE else commands.verify()
