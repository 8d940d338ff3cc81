"""The result of a verification: a sequence of findings with a verdict."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from rmqstore.api.html import table
from rmqstore.doctor.foresight import foresee
from rmqstore.findings import Finding, Severity
from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.verify import PATIENCE
from rmqstore.verify.advice import spelled_out
from rmqstore.verify.context import Options
from rmqstore.verify.engine import Verification as Engine
from rmqstore.verify.unchecked import NotChecked
from rmqstore.verify.verdict import limits_of, verdict


@dataclass(frozen=True, slots=True)
class Verification(Sequence[Finding]):
    """The findings in the order of the store. `verdict` is the answer in one line; `not_checked` are parts that hold data and were not
    verified in depth."""

    findings: tuple[Finding, ...]
    verdict: str
    not_checked: tuple[NotChecked, ...]

    @property
    def errors(self) -> list[Finding]:
        """Return the findings of severity error."""
        return [one for one in self.findings if one.severity is Severity.ERROR]

    @property
    def healthy(self) -> bool:
        """Return whether there is no error and no part with data was left out: if so, `rmqstore verify` ends with status 0."""
        return not self.errors and not self.not_checked

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Finding, ...]: ...
    def __getitem__(self, index: int | slice) -> Finding | tuple[Finding, ...]:
        return self.findings[index]

    def __len__(self) -> int:
        return len(self.findings)

    def _repr_html_(self) -> str:
        rows = ((one.severity, one.code, one.file, one.offset, one.topic, one.queue_id, one.queue_offset, one.message) for one in self)
        return table(self.verdict, ("severity", "code", "file", "offset", "topic", "queue", "queue offset", "message"), rows)


def verify(at: StoreAt, parts: frozenset[str], topics: frozenset[str], *, quick: bool, threads: int | None) -> Verification:
    """Verify a store in this process. Raises UnreadableError."""
    store, options = at.open(), Options(parts, topics, quick, threads or os.cpu_count() or 1)
    engine = Engine(store, options, foresight=foresee, patience=PATIENCE)
    found = tuple(spelled_out(one, str(store.root), at.options) for one in engine.run())
    unread = tuple(dict.fromkeys(engine.totals.not_checked))
    errors = sum(one.severity is Severity.ERROR for one in found)
    return Verification(found, verdict(errors, unread, list(limits_of(options, store.only))), unread)
