"""The facts about a store before anything is judged: ends of its log, releases, processes, and the simulated start.

One file that cannot be read does not end the triage: it becomes a finding, and what follows from it is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rmqstore.doctor.checks import configfiles
from rmqstore.doctor.checks.configfiles import ConfigFiles
from rmqstore.doctor.denied import findings as denied_findings
from rmqstore.errors import RmqstoreError, UsageError
from rmqstore.findings import Finding
from rmqstore.prediction.outcome import Outcome
from rmqstore.prediction.readable import simulate_readable, unknown_outcome
from rmqstore.prediction.release import AUTO, Chosen, choose_release
from rmqstore.scan.tail import tail_records
from rmqstore.store.access import Denied, denied_entries
from rmqstore.store.kinds.writer import WriterGuess, guess_writer
from rmqstore.store.liveness import Liveness, liveness
from rmqstore.store.root import Store
from rmqstore.store.summary import LogSummary, StoreSummary, summarize
from rmqstore.store.transactions import Transactions, read_transactions
from rmqstore.verify.context import Context
from rmqstore.versions import profile_of


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts. `log` and `writer` are None without a readable log; `findings`: unreadable files, `denied`: those without permission."""

    chosen: Chosen
    outcome: Outcome
    log: LogSummary | None
    writer: WriterGuess | None
    files: ConfigFiles
    transactions: Transactions
    liveness: Liveness
    findings: tuple[Finding, ...]
    denied: tuple[Denied, ...]


def observe(context: Context, asked_release: str) -> Observed:
    """Return the facts about a store. Raises UsageError for an unknown release."""
    store = context.store
    denied = tuple(denied_entries(store))
    findings = list(denied_findings(context, denied))
    summary: StoreSummary | None = None
    try:
        summary = summarize(store, tail_records)
    except UsageError:
        raise
    except (RmqstoreError, OSError) as error:
        findings.append(unreadable(context, error))
    writer = None if summary is None else summary.writer
    chosen = _choose(store, asked_release, writer)
    files = configfiles.load(store, profile_of(chosen.release))  # before the queues: a running broker advances both
    try:
        outcome = simulate_readable(store, chosen.release, denied, counts_lost=False)
    except UsageError:
        raise
    except (RmqstoreError, OSError) as error:
        findings.append(unreadable(context, error))
        outcome = unknown_outcome(store, chosen.release, findings[-1].message)
    return Observed(
        chosen,
        outcome,
        None if summary is None else summary.log,
        writer,
        files,
        read_transactions(store.root) if summary is None else summary.transactions,
        liveness(store) if summary is None else summary.liveness,
        tuple(findings),
        denied,
    )


def unreadable(context: Context, error: RmqstoreError | OSError) -> Finding:
    """Return the finding that a file could not be read."""
    if isinstance(error, OSError):
        text = f"{error.filename or 'a file'} cannot be read: {error.strerror}"
        return context.finding("RMQ-ST-UNREADABLE", text, file=None if error.filename is None else Path(error.filename))
    return context.finding("RMQ-ST-UNREADABLE", error.message, file=_path_in(error.message), mend=error.hint)


def _path_in(message: str) -> Path | None:
    """Return the path with which the message of an error begins."""
    words = message.split(" ")
    prefixes = (" ".join(words[:number]).rstrip(":") for number in range(len(words), 0, -1))
    return next((Path(text) for text in prefixes if text.startswith("/") and _exists(Path(text))), None)


def _exists(path: Path) -> bool:
    """Return whether it exists, as far as the directories above it can be entered."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError:
        return _exists(path.parent)
    return True


def _choose(store: Store, asked: str, writer: WriterGuess | None) -> Chosen:
    return choose_release(store, asked, writer if writer is not None or asked != AUTO else guess_writer(store, []))
