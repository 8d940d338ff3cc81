"""Advice on a finding, with commands that can be pasted: path, settings and places replace the words of the catalogue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rmqstore import shellwords
from rmqstore.findings import Finding, Severity

_REPAIRED = frozenset({"CL", "CQ", "IX", "CP", "TM"})
"""Parts of which `recover` plans a repair, without these codes: a setting or a file from another place comes first."""
_NOT_REPAIRED = frozenset({"RMQ-CL-NORECORD", "RMQ-CL-EMPTY", "RMQ-CL-FILELEN", "RMQ-CL-NAME", "RMQ-CQ-NAME", "RMQ-TM-GONE"})
_COMMAND = re.compile(r"`rmqstore ([a-z-]+) (STORE|FILE)((?:/| )[^`]*)?`")


def spelled_out(finding: Finding, root: str, settings: Sequence[str]) -> Finding:
    """Return a finding whose commands name the store at `root`, with `settings`, the words that every command on it needs.

    An error without a command gets one.
    """
    advice = finding.mend
    if finding.severity is Severity.ERROR and "`rmqstore " not in (advice or ""):
        advice = f"{advice} {_next(finding.code)}" if advice else _next(finding.code)
    if advice is None:
        return finding

    def command(match: re.Match[str]) -> str:
        if match[2] == "FILE" and finding.file is None:
            return match[0]
        place = root if match[2] == "STORE" else f"{root}/{finding.file}"
        below, _, words = (match[3] or "").partition(" ")
        known = {"OFFSET": finding.offset, "TOPIC": finding.topic, "ID": finding.queue_id, "N": finding.queue_offset}
        asked = [str(known[word]) if known.get(word) is not None else word for word in words.split()]
        return "`" + shellwords.command("rmqstore", match[1], place + below, *asked, *(settings if match[2] == "STORE" else ())) + "`"

    return replace(finding, mend=_COMMAND.sub(command, advice))


def _next(code: str) -> str:
    if code.split("-")[1] in _REPAIRED and code not in _NOT_REPAIRED:
        return "Next: `rmqstore recover STORE` plans a repair of the whole store, and asks before it writes."
    return f"Next: `rmqstore explain {code}`."
