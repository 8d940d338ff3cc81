"""The verdict in one long sentence: the release, how it starts, and everything that it costs."""

from __future__ import annotations

from rmqstore.doctor.areas import State
from rmqstore.doctor.verdict import Verdict
from rmqstore.prediction.outcome import Mode, Outcome

COPY_FIRST = "copy the store before any start"
_HOW = {Mode.NORMAL: "without crash recovery", Mode.ABNORMAL: "with crash recovery"}


def sentence(verdict: Verdict, outcome: Outcome, *, starts: bool | None, reason: str | None) -> str:
    """Return the verdict in one sentence. `reason`: the line of the log that says why it does not start."""
    broker = f"a broker of {outcome.release}"
    losses = list(dict.fromkeys(effect.text for effect in verdict.effects if effect.state is State.LOSES))
    unread = list(dict.fromkeys(effect.text for effect in verdict.effects if effect.state is State.NOT_CHECKED))
    if starts is None:
        return f"unknown whether {broker} starts, because {reason or outcome.unknown or '; '.join(unread)}"
    if not starts:
        return f"{broker} does not start: {reason}; do not try it again, a failed start rewrites files"
    how = f"{broker} starts {_HOW[outcome.mode]}"
    if losses:
        return f"{how}, but {'; '.join(losses)}: {COPY_FIRST}"
    if unread:
        return f"{how}, but not all of its effects are known: {'; '.join(unread)}"
    return f"{how}, nothing is lost"
