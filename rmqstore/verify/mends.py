"""What to do about a finding, with commands that can be pasted: path, settings and places in the place of the words of the catalogue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rmqstore import shellwords
from rmqstore.findings import Finding

_COMMAND = re.compile(r"`rmqstore ([a-z-]+) STORE((?:/| )[^`]*)?`")


def spelled_out(finding: Finding, root: str, settings: Sequence[str]) -> Finding:
    """Return a finding whose commands name the store at `root`, with `settings`, the words that every command on it needs."""
    if finding.mend is None:
        return finding

    def command(match: re.Match[str]) -> str:
        rest = match[2] or ""
        below, _, words = rest.partition(" ")
        known = {"OFFSET": finding.offset, "TOPIC": finding.topic, "ID": finding.queue_id, "N": finding.queue_offset}
        asked = [str(known[word]) if known.get(word) is not None else word for word in words.split()]
        return "`" + shellwords.command("rmqstore", match[1], root + below, *asked, *settings) + "`"

    return replace(finding, mend=_COMMAND.sub(command, finding.mend))
