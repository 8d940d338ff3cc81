"""`rmqstore doctor`: whether a broker starts on a store, what the start costs, and what to run next."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqstore.commands.common import View, broker_version_option, output_options, store_argument, store_options

if TYPE_CHECKING:
    from rmqstore.doctor.diagnosis import Diagnosis

EXIT_FINDINGS = 1
_AUTO = "auto"
_SHOWN_DEFAULT = "the broker's default"


@click.command("doctor", short_help="Report whether a broker starts on a store, what that costs, what to run next.")
@store_argument
@broker_version_option
@store_options
@output_options
@click.pass_context
def command(
    context: click.Context, store: Path, broker_version: str, broker_conf: Path | None, settings: Mapping[str, str], view: View
) -> None:
    """Report whether a broker of --broker-version starts on STORE, with the line its log would show, and what the start costs in each
    area of the store; then what is wrong, the most dangerous first. The first line is the worst problem, the next one what to do.

    Reads what a start of the broker would read, and a sample of the commit log, so the size of the store does not matter; `rmqstore
    verify` reads everything. Ends with status 0 only if the broker starts and nothing is lost, repeated or unreachable by key.
    """
    from rmqstore.doctor.diagnosis import diagnose
    from rmqstore.doctor.nextsteps import Commands
    from rmqstore.scan.compilation import compile_kernels
    from rmqstore.store.root import Store

    opened = Store.open(store, broker_conf=broker_conf, settings=settings)
    compile_kernels(quiet=view.quiet)
    words = [] if broker_conf is None else ["--broker-conf", str(broker_conf.absolute())]
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    diagnosis = diagnose(opened, broker_version, Commands(opened.root, words, "" if broker_version == _AUTO else broker_version))
    output = view.output()
    if view.format == "table":
        output.object(for_people(diagnosis))
    for finding in diagnosis.findings:
        output.finding(finding)
    if view.format == "table":
        output.summary(advice(diagnosis))
    else:
        output.object(diagnosis.as_json())
    if not diagnosis.nothing_lost:
        context.exit(EXIT_FINDINGS)


def for_people(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the verdict as text."""
    screen: dict[str, Any] = {
        "verdict": diagnosis.verdict.headline,
        "next": diagnosis.next,
        "in full": diagnosis.sentence,
        "broker": f"{diagnosis.release} ({diagnosis.because})",
        "starts": {True: "yes", False: "no", None: "unknown"}[diagnosis.starts],
        "recovery": str(diagnosis.outcome.mode),
    }
    scan = diagnosis.outcome.scan
    if scan is not None:
        screen["scan"] = f"{scan.records} records from {scan.first_file} on, up to offset {scan.stop_offset}: {scan.stop_reason}"
    screen["areas"] = [
        {"area": str(one.area), "state": str(one.state), "count": "" if one.count is None else one.count, "reason": one.reason}
        for one in diagnosis.verdict.areas
    ]
    assumed = [one for one in diagnosis.assumed if one.source != _SHOWN_DEFAULT]
    if assumed:
        screen["assumed"] = [{"setting": f"{one.name}={one.value}", "source": one.source} for one in assumed]
    screen["log shows"] = [{"line": line} for line in diagnosis.log]
    return screen


def advice(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return what to do next."""
    return {"next": diagnosis.next}
