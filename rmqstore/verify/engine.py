"""Verification of a store, whether or not something writes to it.

One look is enough for a store that did not change meanwhile. Where it did, a finding has to be in a second look as well, and
before the end of the first one (`horizon`). Nothing is written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rmqstore.errors import GoneError, RmqstoreError
from rmqstore.findings import Finding, Severity
from rmqstore.reading.progress import Advance, silent
from rmqstore.scan.columns import Stop
from rmqstore.scan.kernels.queue import Claim
from rmqstore.store.mapped import MappedFile, listing_once
from rmqstore.store.root import Store
from rmqstore.verify.context import Context, Options
from rmqstore.verify.horizon import Horizon, Mark, comes_to_be_written, is_written, mark_of
from rmqstore.verify.log.pieces import Piece
from rmqstore.verify.log.result import FileResult
from rmqstore.verify.look import Look, Outcome, Passes, Totals, files_as_mapped, last_file_with_data
from rmqstore.verify.nextstart import Foresight, weighed
from rmqstore.verify.queues.exchanged import Held

__all__ = ["Advance", "Outcome", "Passes", "Totals", "Verification", "files_as_mapped", "last_file_with_data", "verify"]


_MOST_LOOKS = 5  # looks that end because a file is gone, unless they take less than
_LOOKING = 60.0  # seconds together


class Verification:
    """One verification of one store."""

    def __init__(
        self,
        store: Store,
        options: Options | None = None,
        passes: Passes | None = None,
        foresight: Foresight | None = None,
        *,
        patience: float = 0.0,
        began: Mark | None = None,
    ) -> None:
        """Take what runs the passes over the files of the log, without it threads of this process. `foresight` weighs missing units.

        `patience`: seconds to wait for a slow writer before an error is reported that a writer would explain. `began`: what was at the
        end of the store when the passes began, if they were run before.
        """
        self.store = store
        options = options or Options()
        # All looks assume the same state: `abort` may appear and disappear meanwhile.
        self.options = options if options.crashed is not None else replace(options, crashed=store.abort_present)
        self._passes = passes
        self._foresight = foresight
        self._patience = patience
        self._began = began
        self._look = Look(store, self.options, passes)

    @property
    def context(self) -> Context:
        """The data of the checks: after `run`, also what the log holds."""
        return self._look.context

    @property
    def totals(self) -> Totals:
        """The extent of the verification, after `run`."""
        return self._look.totals

    @property
    def exchanged(self) -> dict[Path, Held]:
        """Queue files that hold units of another place, after `run`."""
        return self._look.exchanged

    @property
    def total_bytes(self) -> int:
        """Bytes of the commit log that the pass will read."""
        return self._look.total_bytes

    @property
    def wanted_files(self) -> list[MappedFile]:
        """Files of the log that the pass will read, unless they are too few."""
        return self._look.wanted_files

    def pass_over(self, path: str, piece: Piece, advance: Advance = silent) -> Outcome:
        """Run the pass over a piece of a file of the log, for a runner whose passes are in other processes."""
        return self._look.pass_over(path, piece, advance)

    def run(self, advance: Advance = silent) -> Iterator[Finding]:
        """Yield all findings. `advance` is called with the number of bytes of the log as they are read, from several threads."""
        before = self._began or mark_of(self.store)
        findings = self._looked(advance)
        if findings:
            store = self.store.reopened()
            horizon = Horizon(self._look.context.log.end_offset or (before.log_end if before is not None else 0), before, before)
            if is_written(store, before, findings) or self._is_written_slowly(store, horizon, findings):
                horizon = replace(horizon, second=mark_of(store))
                findings = list(horizon.remaining(findings, self._look_again(store)))
            elif self._foresight is not None:
                findings = list(weighed(store, findings, self._foresight))
        yield from findings

    def _looked(self, advance: Advance = silent) -> list[Finding]:
        """Return the findings of a look. Where old files are removed meanwhile, it begins again."""
        began, looks = time.monotonic(), 0
        while looks < _MOST_LOOKS or time.monotonic() < began + _LOOKING:
            looks += 1
            try:
                with listing_once():
                    findings = list(self._look.run(advance))
                unreadable = [finding.file for finding in findings if finding.code == "RMQ-ST-UNREADABLE"]
                if not unreadable or (self._has_its_files() and all(file is None or self._exists(file) for file in unreadable)):
                    return findings
            except GoneError:
                pass
            except RmqstoreError:
                if self._has_its_files():
                    raise
            self._look = Look(self.store.reopened(), self.options, self._passes)
        with listing_once():
            return list(self._look.run(advance))

    def _has_its_files(self) -> bool:
        """Return whether all files of the log that the look knows still exist."""
        return all(file.path.exists() for file in self._look.store.message_log.files)

    def _exists(self, file: str) -> bool:
        """Return whether a file that could not be read, relative to the root, is there, whatever it is."""
        return os.path.lexists(self.store.root / file)

    def _is_written_slowly(self, store: Store, horizon: Horizon, findings: list[Finding]) -> bool:
        """Return whether a writer shows up within the time that is given to it, where it would explain an error."""
        errors = (finding for finding in findings if finding.severity is Severity.ERROR)
        return self._patience > 0 and any(map(horizon.explains, errors)) and comes_to_be_written(store, horizon.first, self._patience)

    def _look_again(self, store: Store) -> list[Finding]:
        """Return the findings of a second look; files of the log that are settled are not read again."""
        first = self._look
        settled = {result.file.path: result for result in _settled(first.results)}
        self._look = Look(store, self.options, self._passes, settled)
        findings = self._looked()
        self._look.totals.seconds += first.totals.seconds
        return findings


def _settled(results: Sequence[FileResult]) -> Iterator[FileResult]:
    """Yield the results that are settled, and all others with which they share their spans."""
    together: list[FileResult] = []
    begin = 1 << 63
    for result in reversed(results):
        if result.file.start < begin:
            if all(map(_is_settled, together)):
                yield from together
            together, begin = [], result.spans_from if result.spans_from >= 0 else result.file.start
        together.append(result)
    if all(map(_is_settled, together)):
        yield from together


def _is_settled(result: FileResult) -> bool:
    """Return whether a file is full, and everything in it is valid, in queues and index as well."""
    odd = result.findings or result.damages or result.moved or result.spans.events.size or result.unreadable
    renumbered = any(result.renumbered.values())
    full = result.end is not None and result.end.reason is Stop.BLANK and result.tail is None
    index = result.index
    indexed = not (index.oddities or index.leftovers or index.before or index.between or index.behind)
    queued = bool((result.spans.runs["claim"] == Claim.MATCH).all())
    return full and indexed and queued and not odd and not renumbered


def verify(store: Store, options: Options | None = None) -> list[Finding]:
    """Return all findings of a verification of `store`."""
    return list(Verification(store, options).run())
