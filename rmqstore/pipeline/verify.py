"""Verification as jobs: the passes over the files of one large store, or one whole store per part if there are many.

The verification is `rmqstore.verify` alone; this module moves its inputs to the workers and its results back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

from rmqstore.catalogue import finding
from rmqstore.doctor.foresight import foresee
from rmqstore.errors import RmqstoreError
from rmqstore.findings import Finding
from rmqstore.pipeline.filesystems import is_remote
from rmqstore.pipeline.job import Runner, StoreAt
from rmqstore.pipeline.logparts import LARGEST_PIECE
from rmqstore.pipeline.remote import at_hand, log_size
from rmqstore.pipeline.verifyjob import FilePart, Found, StorePart, job_of, parts_of_files, sorted_out
from rmqstore.reading.progress import Advance, silent
from rmqstore.store.mapped import MappedFile
from rmqstore.verify.context import Options
from rmqstore.verify.engine import Outcome, Passes, Totals, Verification
from rmqstore.verify.horizon import Mark, mark_of

LARGE_STORE = 4 << 30
"""Bytes of log from which a store is worth more than one part."""
PATIENCE = 0.25
"""Seconds to wait for a slow writer that could explain an error."""
MOST_FINDINGS = 10_000
"""Findings of one code that a part sends back; more are only counted."""


@dataclass(frozen=True, slots=True)
class Known:
    """Files of a log whose passes were run already, their parts, and what was found."""

    files: Sequence[MappedFile]
    parts: Sequence[FilePart]
    found: Found

    def are(self, files: Sequence[MappedFile]) -> bool:
        """Return whether these are the files."""
        return [(file.path, file.length) for file in files] == [(file.path, file.length) for file in self.files]


@dataclass(frozen=True, slots=True)
class Beforehand:
    """The passes of a verification, and what was at the end of the store before any of them was run."""

    passes: Passes
    began: Mark | None


def passes_of(runner: Runner, at: StoreAt, options: Options, known: Known | None = None) -> Passes:
    """Return the passes of a verification, run by a runner; the first time, nothing is run of files that are all `known` already.

    Pieces of files that do not fit together are read again, as whole files: damaged bytes of log or index can look right to one of them.
    """
    waiting = [known] if known is not None else []

    def passes(files: Sequence[MappedFile], advance: Advance) -> list[Outcome]:
        verification = Verification(at.open(), options)
        before = waiting.pop() if waiting else None
        outcomes = None
        if before is not None and before.are(files):
            outcomes = before.found.of_files(files, before.parts, verification.context)
        for largest in (_largest_piece(verification), None):
            if outcomes is None:
                parts = parts_of_files(at, files, queues=verification.store.queue_count, largest=largest)
                _, found = sorted_out(runner.run(job_of((at.marked(),), options, parts), advance), parts)
                outcomes, advance = found[0].of_files(files, parts, verification.context), silent
        assert outcomes is not None  # whole files always fit
        return outcomes

    return passes


def _largest_piece(verification: Verification) -> int | None:
    """Return the size of pieces of the log, None for whole files: the entries of a DLedger log are a chain."""
    return None if verification.store.dledger is not None else LARGEST_PIECE


@dataclass(slots=True)
class StoreReport:
    """The findings of one of several stores. `counts` are of all findings by code and severity, those not listed included."""

    at: StoreAt
    findings: list[Finding]
    counts: Counter[tuple[str, str]]
    totals: Totals


def report_of(at: StoreAt, options: Options, limit: int, advance: Advance, beforehand: Beforehand | None = None) -> StoreReport:
    """Verify one of several stores; if it cannot be read, that is a finding, so that the others are still verified."""
    report = StoreReport(at, [], Counter(), Totals())
    try:
        with at_hand(at, by_range=True) if beforehand is None else nullcontext(at) as here:
            passes, began = (None, None) if beforehand is None else (beforehand.passes, beforehand.began)
            verification = Verification(here.open(), options, passes, foresee, patience=PATIENCE, began=began)
            for each in verification.run(advance):
                _note(report, each, limit)
            report.totals = verification.totals
            report.totals.not_checked = [replace(one, store=at.path) for one in report.totals.not_checked]
    except RmqstoreError as error:
        _note(report, finding("RMQ-ST-UNREADABLE", error.message, crashed=False, mend=error.hint), limit)
    return report


def _note(report: StoreReport, each: Finding, limit: int) -> None:
    of_code = sum(count for (code, _), count in report.counts.items() if code == each.code)
    if of_code < min(limit, MOST_FINDINGS):
        report.findings.append(replace(each, store=report.at.path))
    report.counts[each.code, str(each.severity)] += 1


def reports(runner: Runner, stores: Sequence[StoreAt], options: Options, limit: int, advance: Advance) -> Iterator[StoreReport]:
    """Yield the reports of several stores in order. They are one job: small ones are a part each, of large ones each file of the log."""
    stores = [at if is_remote(at.path) else at.marked() for at in stores]
    parts: list[StorePart | FilePart] = []
    large: dict[int, _Large] = {}
    for number, at in enumerate(stores):
        size = log_size(at)
        opened = _Large.of(at, options, number, len(parts)) if size > LARGE_STORE else None
        if opened is not None:
            large[number] = opened
        parts += [StorePart(len(parts), at.path, size, number)] if opened is None else opened.parts
    job = job_of(tuple(stores), options, parts, partial(report_of, limit=limit))
    whole, found = sorted_out(runner.run(job, advance), parts)
    for number, at in enumerate(stores):
        if number not in large:
            report = whole[number]
            assert isinstance(report, StoreReport)
            yield report
            continue
        of_store = large.pop(number)
        known = passes_of(runner, at, options, Known(of_store.files, of_store.parts, found.pop(number)))
        yield report_of(at, options, limit, advance, Beforehand(known, of_store.began))


@dataclass(frozen=True, slots=True)
class _Large:
    """A store that is taken apart: its files, their parts, and what was at its end before."""

    files: list[MappedFile]
    parts: list[FilePart]
    began: Mark | None

    @classmethod
    def of(cls, at: StoreAt, options: Options, store: int, first_number: int) -> _Large | None:
        """Return it, None for a store that cannot be read or has no files to read."""
        try:
            opened = at.open()
            began = mark_of(opened)
            verification = Verification(opened, options)
            files = verification.wanted_files
        except RmqstoreError:
            return None
        largest = _largest_piece(verification)
        parts = parts_of_files(at, files, store, first_number, queues=opened.queue_count, largest=largest)
        return cls(files, parts, began) if files else None
