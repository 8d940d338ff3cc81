"""`rmqstore doctor`: whether a broker starts on a store, what the start costs, and what to run next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqstore.commands.common import View, broker_version_option, output_options, setting_words, store_options, uris_of_copies, with_uris
from rmqstore.commands.engines import open_at_hand, stores_argument
from rmqstore.commands.reporting import html_option, write_page
from rmqstore.errors import RmqstoreError, UsageError

if TYPE_CHECKING:
    from rmqstore.doctor.diagnosis import Diagnosis
    from rmqstore.doctor.nextsteps import Commands
    from rmqstore.findings import Finding
    from rmqstore.render.output import Output
    from rmqstore.store.root import Store

EXIT_FINDINGS = 1
_AUTO = "auto"
_PLACES = 5
_SHOWN_DEFAULT = "the broker's default"


@click.command("doctor", short_help="Report whether a broker starts on a store, what that costs, what to run next.")
@stores_argument
@click.option("--gate", is_flag=True, help="Print one line of JSON for each store: whether an upgrade can continue.")
@click.option("--deep", is_flag=True, help="With --gate: also verify the whole store.")
@html_option
@broker_version_option
@store_options
@output_options
@click.pass_context
def command(
    context: click.Context,
    stores: tuple[Path | str, ...],
    gate: bool,
    deep: bool,
    html: Path | None,
    broker_version: str,
    broker_conf: Path | None,
    settings: Mapping[str, str],
    view: View,
) -> None:
    """Report whether a broker of --broker-version starts on STORE, with the line its log would show, and what the start costs in each
    area of the store; then what is wrong, the most dangerous first. The first line is the worst problem, the next one what to do.

    Reads what a start of the broker would read, and a sample of the commit log, so the size of the store does not matter; `rmqstore
    verify` reads everything. Ends with status 0 only if the broker starts and nothing is lost, repeated or unreachable by key.

    STORE may be a URI (s3, gs, hdfs), of which only the ranges that are needed are fetched. Several stores are a line each. With --gate,
    status 0 means that all of each store was judged, and that nothing is lost.
    """
    from rmqstore.scan.compilation import compile_kernels

    if deep and not gate:
        raise UsageError("--deep is for --gate.", "Run `rmqstore verify` for the findings of a whole store.")
    if html is not None and (gate or len(stores) > 1):
        raise UsageError("--html is for the diagnosis of one store.", "Name one store, without --gate.")
    compile_kernels(quiet=view.quiet)
    ask = partial(diagnosis_of, broker_version=broker_version, broker_conf=broker_conf, settings=settings)
    if gate:
        passed = [_gate(store, ask, deep=deep) for store in stores]
    elif len(stores) == 1:
        diagnosis = ask(stores[0])[1]
        passed = [_one(diagnosis, view)]
        if html is not None:
            from rmqstore.render.page import Page

            page = Page()
            _write(diagnosis, with_uris(page), complete=view.verbose)
            write_page(html, page, "Diagnosis", stores)
    else:
        passed = _several(stores, ask, view)
    if not all(passed):
        context.exit(EXIT_FINDINGS)


def diagnosis_of(store: Path | str, broker_version: str, broker_conf: Path | None, settings: Mapping[str, str]) -> tuple[Store, Diagnosis]:
    """Open a store and diagnose it. Raises UsageError, UnreadableError, NotAStoreError."""
    from rmqstore.doctor.diagnosis import diagnose

    opened = open_at_hand(store, broker_conf, settings)
    return opened, diagnose(opened, broker_version, commands_on(opened.root, broker_version, broker_conf, settings))


def commands_on(root: Path, broker_version: str, broker_conf: Path | None, settings: Mapping[str, str]) -> Commands:
    """Return the commands on a store, with the options of this one."""
    from rmqstore.doctor.nextsteps import Commands

    return Commands(root, setting_words(broker_conf, settings), "" if broker_version == _AUTO else broker_version)


def _one(diagnosis: Diagnosis, view: View) -> bool:
    """Write the diagnosis of a single store; return whether nothing is lost."""
    output = view.output()
    if view.format == "table":
        _write(diagnosis, output, complete=view.verbose)
        return diagnosis.nothing_lost
    output.verdict(diagnosis.verdict.headline)
    for finding in diagnosis.findings:
        output.finding(finding)
    output.object(diagnosis.as_json())
    return diagnosis.nothing_lost


def _write(diagnosis: Diagnosis, output: Output, *, complete: bool) -> None:
    """Write a diagnosis as text; `complete`: also areas that need no word."""
    output.verdict(diagnosis.verdict.headline)
    output.object(for_people(diagnosis, complete=complete))
    for finding in _equal_ones_once(diagnosis.findings):
        output.finding(finding)
    output.next(diagnosis.next)


def _equal_ones_once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings, those with the same code and message as one with a count, in the place of the first."""
    equal: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        equal.setdefault((finding.code, finding.severity, finding.message), []).append(finding)
    for first, *others in equal.values():
        yield replace(first, message=f"{first.message} ({len(others) + 1} times)", places=tuple(others[:_PLACES])) if others else first


def _several(stores: Sequence[Path | str], ask: Callable[[Path | str], tuple[Store, Diagnosis]], view: View) -> list[bool]:
    """Write a line for each store; return of each whether nothing is lost."""
    passed, rows = [], []
    for store in stores:
        try:
            _, diagnosis = ask(store)
        except RmqstoreError as error:
            passed.append(False)
            rows.append({"store": str(store), "verdict": error.message, "next": error.hint})
            continue
        passed.append(diagnosis.nothing_lost)
        if view.format == "table":
            rows.append({"store": str(store), "verdict": diagnosis.verdict.headline, "next": diagnosis.next})
        else:
            rows.append({**diagnosis.as_json(), "store": str(store)})
    if view.format == "table":
        output = view.output()
        bad = passed.count(False)
        output.verdict(f"{'BAD' if bad else 'GOOD'}: {len(stores) - bad} of {len(stores)} stores start and lose nothing")
        output.rows(rows)
        output.next(next((row["next"] for row, good in zip(rows, passed, strict=True) if not good), "Start the broker."))
    else:
        for row in rows:
            view.output().object(row if "type" in row else {"type": "unreadable", **row})
    return passed


def _gate(store: Path | str, ask: Callable[[Path | str], tuple[Store, Diagnosis]], *, deep: bool) -> bool:
    """Print whether an upgrade can continue with a store; what cannot be judged does not pass."""
    from rmqstore.doctor.gate import gate, refused
    from rmqstore.render.renamed import renamed
    from rmqstore.render.text import compact_json

    try:
        opened, diagnosis = ask(store)
        result = gate(opened, diagnosis, deep=deep)
    except RmqstoreError as error:
        result = refused(store, error)
    click.echo(compact_json(renamed(result, uris_of_copies())))
    return bool(result["pass"])


def for_people(diagnosis: Diagnosis, *, complete: bool) -> dict[str, Any]:
    """Return the details of a diagnosis as text; `complete`: also areas that need no word."""
    from rmqstore.render.strip import strip

    screen: dict[str, Any] = {
        "in full": diagnosis.sentence,
        "broker": f"{diagnosis.release} ({diagnosis.because})",
        "starts": {True: "yes", False: "no", None: "unknown"}[diagnosis.starts],
        "recovery": str(diagnosis.outcome.mode),
    }
    scan = diagnosis.outcome.scan
    if scan is not None:
        screen["scan"] = f"{scan.records} records from {scan.first_file} on, up to offset {scan.stop_offset}: {scan.stop_reason}"
    if diagnosis.log_ranges:
        screen["log"] = strip((one.begin, one.end, str(one.state)) for one in diagnosis.log_ranges)
    areas = [one for one in diagnosis.verdict.areas if complete or one.reason or one.state != "ok"]
    if areas:
        screen["areas"] = [
            {"area": str(one.area), "state": str(one.state), "count": "" if one.count is None else one.count, "reason": one.reason}
            for one in areas
        ]
    assumed = [one for one in diagnosis.assumed if one.source != _SHOWN_DEFAULT]
    if assumed:
        screen["assumed"] = [{"setting": f"{one.name}={one.value}", "source": one.source} for one in assumed]
    screen["the broker's log will show"] = [{"line": line} for line in diagnosis.log]
    return screen
