"""The release for a prediction without `--release`: the one that wrote the store, as far as its bytes show."""

from __future__ import annotations

from dataclasses import dataclass

from rmqstore.scan.tail import tail_records
from rmqstore.store.kinds.writer import WriterGuess
from rmqstore.store.root import Store
from rmqstore.store.summary import summarize
from rmqstore.versions import profile_of

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A release and the sentence why it was chosen."""

    release: str
    because: str


def choose_release(store: Store, asked: str, guess: WriterGuess | None = None) -> Chosen:
    """Return the requested release; for `auto` the newest that can have written the store according to `guess`. Raises UsageError."""
    if asked != AUTO:
        profile_of(asked)
        return Chosen(asked, "requested")
    guess = guess or summarize(store, tail_records).writer
    deciding = [sign.text for sign in guess.signs if sign.since == guess.lowest or sign.until == guess.highest]
    signs = "; ".join(deciding) or "no sign narrows it down"
    if guess.contradicting:
        signs += f"; contradicting: {'; '.join(sign.text for sign in guess.contradicting)}"
    if guess.implementation is not None:
        signs = f"{guess.implementation} wrote it, the prediction is for a broker of Apache RocketMQ; {signs}"
    return _known(guess, signs)


def _known(guess: WriterGuess, signs: str) -> Chosen:
    """Return the newest release of the range."""
    if guess.lowest == guess.highest:
        return Chosen(guess.highest, f"only {guess.highest} can have written this store: {signs}")
    return Chosen(guess.highest, f"the newest of {guess.lowest} to {guess.highest}, which can have written this store: {signs}")
