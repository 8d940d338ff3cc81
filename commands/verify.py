"""`rmqstore verify`: check everything in a store against everything else, without changing a byte."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqstore.commands.common import NOTHING_TO_DO, View, on_interrupt, output_options, store_options
from rmqstore.commands.engines import engine_options, stores_argument
from rmqstore.commands.filters import queue_of
from rmqstore.commands.pacing import rate_limit_option
from rmqstore.commands.reporting import html_option, write_page
from rmqstore.errors import UnreadableError
from rmqstore.jsonschema import SCHEMA

if TYPE_CHECKING:
    from rmqstore.findings import Finding
    from rmqstore.pipeline.engine import Choice, EngineOptions
    from rmqstore.pipeline.job import Runner, StoreAt
    from rmqstore.render.output import Output
    from rmqstore.store.root import Store
    from rmqstore.verify.context import Options
    from rmqstore.verify.engine import Totals
    from rmqstore.verify.unchecked import NotChecked

PARTS = ("commitlog", "consumequeue", "index", "checkpoint", "timer", "config", "tiered", "store")
EXIT_FINDINGS = 1


@dataclass(slots=True)
class Known:
    """The findings of an earlier run: single ones by their identity, and sets that were written as one."""

    single: Counter[tuple[object, ...]] = field(default_factory=Counter)
    digests: dict[tuple[str | None, str], set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, item: Mapping[str, Any]) -> None:
        """Add a finding from the output of that run."""
        if item.get("digest") is not None:
            self.digests[item.get("store"), item["code"]].add(item["digest"])
            return
        from rmqstore.verify.identity import identity_of_json

        self.single[identity_of_json(item)] += 1


@click.command("verify", short_help="Check every record, consume queue entry and index entry against the others.")
@stores_argument
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Only findings of this part. May be repeated.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only findings of queues of this topic. May be repeated.")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="TOPIC/ID",
    help="Only findings of this queue; ID alone: this queue id of any topic, or of --topic. May be repeated.",
)
@click.option("--quick", is_flag=True, help="Structure only: bodies are not read and their CRCs not checked.")
@click.option(
    "--limit", type=click.IntRange(min=0), default=None, metavar="N", help="Print at most N findings of each code; all are counted."
)
@click.option("--all", "everything", is_flag=True, help="Print each finding; otherwise many of one code are one with a count.")
@click.option(
    "--baseline",
    type=click.Path(path_type=Path, dir_okay=False, readable=False),
    metavar="FILE",
    help="Output of an earlier run with --format json: report only what is new.",
)
@html_option
@click.option("--allow-unchecked", is_flag=True, help="Status 0 even if a part that holds data is not verified in depth.")
@engine_options
@store_options
@output_options
@rate_limit_option
@click.pass_context
def command(
    context: click.Context,
    stores: tuple[Path | str, ...],
    parts: tuple[str, ...],
    topics: tuple[str, ...],
    queues: tuple[str, ...],
    quick: bool,
    limit: int | None,
    everything: bool,
    baseline: Path | None,
    html: Path | None,
    allow_unchecked: bool,
    wish: EngineOptions,
    broker_conf: Path | None,
    settings: Mapping[str, str],
    view: View,
) -> None:
    """Verify STORE: records and CRCs, consume queue and index entries against records and back, checkpoint, timer, configuration.

    With several stores, every finding names its store, and one that cannot be opened does not keep the others from being
    verified. A store may be a URI (s3, gs, hdfs), of which ranges are fetched.

    A store that a broker writes to may be verified: effects of the running writer are not reported.

    The last line is the verdict. Ends with status 1 if a finding of severity error is new, or if the store has a part with data that
    is not verified in depth (`--allow-unchecked` accepts that), 0 otherwise. `rmqstore explain CODE` explains a finding.
    """
    known = _read_baseline(baseline) if baseline is not None else Known()
    from rmqstore.pipeline.engine import VERIFY, choose, runner_of
    from rmqstore.pipeline.filesystems import is_remote
    from rmqstore.pipeline.job import StoreAt
    from rmqstore.pipeline.remote import log_size
    from rmqstore.verify.context import Options

    chosen = frozenset(queue_of(queue) for queue in queues)
    options = Options(frozenset(parts), frozenset(topics), quick, wish.cores, queues=chosen)
    places = [StoreAt.of(store, broker_conf, settings) for store in stores]
    from rmqstore.render.page import Both, Page

    page = Page()
    output = view.output() if html is None else Both(view.output(), page)
    report = _Report(view, output, known, limit, places[0].options, grouped=not everything and limit is None)
    alone = places[0].open() if len(places) == 1 and not is_remote(places[0].path) else None
    total = alone.message_log.length if alone is not None else sum(map(log_size, places))
    choice = choose(wish, total, VERIFY, remote=any(is_remote(at.path) for at in places))
    # Spark, if it is the engine, starts here, and slow imports happen meanwhile.
    runner = runner_of(choice, wish)
    if choice.engine == "local":
        from rmqstore.scan.compilation import compile_kernels

        compile_kernels(quiet=view.quiet)
    if alone is not None:
        _verify_one(report, alone, places[0], options, choice, runner)
    else:
        _verify_several(report, places, options, choice, runner, total)
    if html is not None:
        write_page(html, page, "Verification", stores)
    if report.errors or (report.not_checked and not allow_unchecked):
        context.exit(EXIT_FINDINGS)


def _verify_one(report: _Report, store: Store, at: StoreAt, options: Options, choice: Choice, runner: Runner) -> None:
    from rmqstore.doctor.foresight import foresee
    from rmqstore.pipeline.verify import PATIENCE, passes_of
    from rmqstore.verify.engine import Verification
    from rmqstore.verify.verdict import limits_of

    passes = None if choice.engine == "local" else passes_of(runner, at, options)
    verification = Verification(store, options, passes, foresee, patience=PATIENCE)
    with report.progress(verification.total_bytes) as advance:
        report.findings(verification.run(advance), at.path)
    report.end(verification.totals, choice, limits_of(options, store.only))


def _verify_several(report: _Report, stores: Sequence[StoreAt], options: Options, choice: Choice, runner: Runner, total: int) -> None:
    from rmqstore.pipeline.verify import MOST_FINDINGS, reports
    from rmqstore.verify.engine import Totals
    from rmqstore.verify.verdict import limits_of

    sums, started = Totals(), time.perf_counter()
    with report.progress(total) as advance:
        for each in reports(runner, stores, options, MOST_FINDINGS if report.limit is None else report.limit, advance):
            report.findings(each.findings, each.at.path, each.counts)
            sums.add(each.totals)
    sums.seconds = time.perf_counter() - started
    report.end(sums, choice, limits_of(options, None), stores=len(stores))


class _Report:
    """Writer and counter of findings and the summary."""

    def __init__(self, view: View, output: Output, known: Known, limit: int | None, settings: Sequence[str], *, grouped: bool) -> None:
        """Write to `output`. `settings` are the options that every command on the stores needs; `grouped`: join findings of one code."""
        self.limit = limit
        self._view = view
        self._known = known
        self._settings = settings
        self._grouped = grouped
        self._bad: str | None = None
        self._output = output
        self._counts: Counter[str] = Counter()
        self._severities: Counter[str] = Counter()
        self._not_new = 0
        self.not_checked: list[NotChecked] = []

    @property
    def errors(self) -> int:
        """Number of new findings of severity error."""
        from rmqstore.findings import Severity

        return self._severities[str(Severity.ERROR)]

    @contextmanager
    def progress(self, total: int) -> Iterator[Callable[[int], None]]:
        """Yield a function to call with the number of verified bytes of the log."""
        covered = 0
        on_interrupt(lambda: f"verified {covered} of {total} bytes of the commit log, {self._counts.total()} findings so far")
        with self._view.progress("verify", total or None) as bar:

            def advance(count: int) -> None:
                nonlocal covered
                covered += count
                bar.advance(count)

            yield advance

    def findings(self, found: Iterable[Finding], root: str, counts: Mapping[tuple[str, str], int] | None = None) -> None:
        """Count and write the findings of the store at `root`. `counts` by code and severity: if some are not listed."""
        from rmqstore.findings import Severity
        from rmqstore.verify.advice import spelled_out

        everything = list(found)
        new = self._new(everything)
        self._not_new += len(everything) - len(new)
        for each in new:
            self._counts[each.code] += 1
            self._severities[str(each.severity)] += 1
            if self._bad is None and each.severity is Severity.ERROR:
                self._bad = root
        listed = Counter((each.code, str(each.severity)) for each in new)
        rest = Counter(counts or {}) - listed
        for (code, severity), count in rest.items():
            self._counts[code] += count
            self._severities[severity] += count
        for each in self._shown(new, rest):
            self._output.finding(spelled_out(each, root, self._settings))

    def _new(self, found: Sequence[Finding]) -> list[Finding]:
        """Return the findings that are not in the baseline."""
        from rmqstore.verify.grouping import digest
        from rmqstore.verify.identity import identity

        known = self._known
        if known.digests:
            by_code: dict[tuple[str | None, str], list[Finding]] = defaultdict(list)
            for each in found:
                by_code[each.store, each.code].append(each)
            found = [
                each
                for place, group in by_code.items()
                if place not in known.digests or digest(group) not in known.digests[place]
                for each in group
            ]
        new = []
        for each in found:
            name = identity(each)
            if known.single[name] > 0:
                known.single[name] -= 1
            else:
                new.append(each)
        return new

    def _shown(self, new: Sequence[Finding], rest: Mapping[tuple[str, str], int]) -> Iterator[Finding]:
        """Yield the findings to write, in the order of the first of each kind."""
        from rmqstore.verify.grouping import grouped

        if not self._grouped:
            shown: Counter[str] = Counter()
            for each in new:
                shown[each.code] += 1
                if self.limit is None or shown[each.code] <= self.limit:
                    yield each
            return
        kinds: dict[tuple[str, str], list[Finding]] = defaultdict(list)
        for each in new:
            kinds[each.code, str(each.severity)].append(each)
        standing = {kind: list(grouped(members, rest.get(kind, 0))) for kind, members in kinds.items()}
        for each in new:
            kind = each.code, str(each.severity)
            if len(standing[kind]) == len(kinds[kind]):
                yield each
            elif kinds[kind][0] is each:
                yield from standing[kind]

    def end(self, totals: Totals, choice: Choice, limits: Iterable[str], **more: int) -> None:
        """Write the summary; `limits` are what was left out on request."""
        from rmqstore.findings import Severity
        from rmqstore.verify.verdict import verdict

        self.not_checked = list(dict.fromkeys(totals.not_checked))
        summary: dict[str, Any] = {
            "schema": SCHEMA,
            "verdict": verdict(self.errors, self.not_checked, list(limits), self._not_new),
            "errors": self.errors,
            "not_checked": [one.as_json() for one in self.not_checked],
            **more,
            "findings": self._counts.total(),
            "severities": {str(severity): self._severities[str(severity)] for severity in Severity},
            "codes": dict(sorted(self._counts.items())),
            "bytes": totals.bytes,
            "records": totals.records,
            "queues": totals.queues,
            "indexed_keys": totals.indexed_keys,
            "seconds": round(totals.seconds, 3),
            "bytes_per_second": round(totals.bytes / totals.seconds) if totals.seconds else 0,
            "engine": choice.engine,
            "engine_because": choice.why,
        }
        if self._not_new:
            summary["in_baseline"] = self._not_new
        if self._view.format == "table":
            left_out = (
                "schema",
                "verdict",
                *(() if self._view.verbose else ("engine", "engine_because", "bytes_per_second", "severities")),
            )
            self._output.summary({name: item for name, item in summary.items() if name not in left_out and item != {}})
            self._output.next(self._next())
        else:
            self._output.summary(summary)
        self._output.verdict(self._headline(summary["verdict"]))

    def _next(self) -> str:
        """Return the next step: the diagnosis of the first store in which something is wrong."""
        from rmqstore.pipeline.filesystems import is_remote
        from rmqstore.shellwords import command

        if self._bad is None:
            return NOTHING_TO_DO
        if is_remote(self._bad):
            return f"Copy {self._bad} to this machine, and run `rmqstore doctor` on the copy."
        return command("rmqstore", "doctor", self._bad, *self._settings)

    def _headline(self, verdict: str) -> str:
        """Return the verdict with a word in capitals at its begin."""
        if self.errors:
            return f"DAMAGED: {verdict}"
        return verdict if verdict.startswith("HEALTHY") else f"NOTHING NEW: {verdict}"


def _read_baseline(path: Path) -> Known:
    try:
        lines = path.read_text("utf-8").split("\n")
        found = [json.loads(line) for line in lines if line.strip()]
        known = Known()
        for item in found:
            if item.get("type") == "finding":
                known.add(item)
    except OSError as error:
        raise UnreadableError(
            f"{path} could not be read: {error.strerror}.", "Give the output of an earlier `verify --format json`."
        ) from error
    except (ValueError, AttributeError) as error:
        raise UnreadableError(f"{path} is not the output of verify.", "Give the output of an earlier `verify --format json`.") from error
    return known
