"""Verification as jobs: the passes over the files of one large store, or one whole store per part if there are many.

The verification is `rmqstore.verify` alone; this module moves its inputs to the workers and its results back.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from rmqstore.catalogue import finding
from rmqstore.doctor.foresight import foresee
from rmqstore.errors import RmqstoreError
from rmqstore.findings import Finding
from rmqstore.pipeline.fetching import is_remote
from rmqstore.pipeline.job import MapOnly, Packet, Part, Runner, StoreAt
from rmqstore.pipeline.remote import at_hand, log_size
from rmqstore.reading.progress import Advance
from rmqstore.store.mapped import MappedFile
from rmqstore.verify.context import Options
from rmqstore.verify.engine import Outcome, Passes, Totals, Verification
from rmqstore.verify.log.commitlog import FileResult

LARGE_STORE = 4 << 30
"""Bytes of log from which a store is worth more than one part."""
PATIENCE = 0.25
"""Seconds to wait for a slow writer that could explain an error."""
MOST_FINDINGS = 10_000
"""Findings of one code that a part sends back; more are only counted."""


@dataclass(frozen=True, slots=True)
class FilesJob(MapOnly):
    """The pass over every file of the log of one store."""

    at: StoreAt
    options: Options
    files: tuple[Part, ...]

    @property
    def title(self) -> str:
        """Return the work and its extent."""
        return f"verify {self.at.path}: {len(self.files):,} log files"

    @property
    def parts(self) -> Sequence[Part]:
        """Return the files of the log, in order."""
        return self.files

    def map(self, part: Part, advance: Advance) -> Iterator[Packet]:
        """Yield one packet: the outcome, pickled."""
        outcome = Verification(self.at.open(), self.options).pass_over(str(self.at.directory / part.name), advance)
        yield Packet(part.name, 0, pickle.dumps(outcome))


def passes_of(runner: Runner, at: StoreAt, options: Options) -> Passes:
    """Return the passes of a verification, run by a runner."""

    def passes(files: Sequence[MappedFile], advance: Advance) -> list[Outcome]:
        # A copy of a store at a URI has another path in each process; the log of others may be outside of their root.
        names = (str(file.path.relative_to(at.directory)) if is_remote(at.path) else str(file.path) for file in files)
        parts = tuple(Part(number, name, file.length) for number, (name, file) in enumerate(zip(names, files, strict=True)))
        found = runner.run(FilesJob(at.marked(), options, parts), advance)
        return [_here(pickle.loads(data), file) for file, (_, data) in zip(files, found, strict=True)]

    return passes


def _here(outcome: Outcome, file: MappedFile) -> Outcome:
    """Return the outcome of another process for a file, which has another path there if it belongs to a copy of a store."""
    if isinstance(outcome, FileResult):
        outcome.file = file
        outcome.moved = [replace(run, file=file) for run in outcome.moved]
        outcome.leftover = [replace(run, file=file) for run in outcome.leftover]
    return outcome


@dataclass(slots=True)
class StoreReport:
    """The findings of one of several stores. `counts` are of all findings by code and severity, those not listed included."""

    at: StoreAt
    findings: list[Finding]
    counts: Counter[tuple[str, str]]
    totals: Totals


@dataclass(frozen=True, slots=True)
class StoresJob(MapOnly):
    """One whole verification per store."""

    stores: tuple[StoreAt, ...]
    sizes: tuple[int, ...]
    options: Options
    limit: int

    @property
    def title(self) -> str:
        """Return the work and its extent."""
        return f"verify {len(self.stores):,} stores"

    @property
    def parts(self) -> Sequence[Part]:
        """Return the stores, in the order of the command line."""
        return [Part(number, at.path, size) for number, (at, size) in enumerate(zip(self.stores, self.sizes, strict=True))]

    def map(self, part: Part, advance: Advance) -> Iterator[Packet]:
        """Yield one packet: the StoreReport, pickled."""
        report = report_of(self.stores[part.number], replace(self.options, threads=1), self.limit, advance)
        yield Packet(part.name, 0, pickle.dumps(report))


def report_of(at: StoreAt, options: Options, limit: int, advance: Advance, passes: Passes | None = None) -> StoreReport:
    """Verify one of several stores; if it cannot be read, that is a finding, so that the others are still verified.

    `passes` as `Verification` takes them.
    """
    report = StoreReport(at, [], Counter(), Totals())
    try:
        with at_hand(at, by_range=True) if passes is None else nullcontext(at) as here:
            verification = Verification(here.open(), options, passes, foresee, patience=PATIENCE)
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
    """Yield the reports of several stores in order: small ones a part each, of large ones each file of the log."""
    stores = [at if is_remote(at.path) else at.marked() for at in stores]
    sizes = {at: log_size(at) for at in stores}
    small = tuple(at for at in stores if sizes[at] <= LARGE_STORE)
    job = StoresJob(small, tuple(sizes[at] for at in small), options, limit)
    done: dict[StoreAt, StoreReport] = {}
    for _, data in runner.run(job, advance):
        report: StoreReport = pickle.loads(data)
        done[report.at] = report
    for at in stores:
        yield done.get(at) or report_of(at, options, limit, advance, passes_of(runner, at, options))
