"""`rmqstore verify`: everything in a store against everything else, without changing a byte."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqstore.commands.common import View, on_interrupt, output_options, store_argument, store_options
from rmqstore.errors import UnreadableError

if TYPE_CHECKING:
    from rmqstore.verify.engine import Verification

PARTS = ("commitlog", "consumequeue", "index", "checkpoint", "timer", "config", "store")
EXIT_FINDINGS = 1

Identity = tuple[Any, ...]


@click.command("verify", short_help="Check every record, queue unit and index item against the others.")
@store_argument
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Only findings of this part. May be repeated.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only findings of queues of this topic. May be repeated.")
@click.option("--quick", is_flag=True, help="Structure only: bodies are not read and their CRCs not checked.")
@click.option(
    "--limit", type=click.IntRange(min=0), default=None, metavar="N", help="Print at most N findings of each code; all are counted."
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path, dir_okay=False, readable=False),
    metavar="FILE",
    help="Output of an earlier run with --format json: report only what is new.",
)
@click.option("--threads", type=click.IntRange(min=1, max=64), default=2, show_default=True, help="Files read at the same time.")
@store_options
@output_options
@click.pass_context
def command(
    context: click.Context,
    store: Path,
    parts: tuple[str, ...],
    topics: tuple[str, ...],
    quick: bool,
    limit: int | None,
    baseline: Path | None,
    threads: int,
    broker_conf: Path | None,
    settings: Mapping[str, str],
    view: View,
) -> None:
    """Verify STORE: every record and CRC, every queue unit and index item against its record and back, checkpoint, timer, configuration.

    Ends with status 1 when a finding of severity error is new, 0 otherwise. `rmqstore explain CODE` tells more about a finding.
    """
    known = _read_baseline(baseline) if baseline is not None else Counter()
    from rmqstore.scan.firstuse import prepare
    from rmqstore.store.root import Store

    opened = Store.open(store, broker_conf=broker_conf, settings=settings)
    prepare(quiet=view.quiet)
    from rmqstore.verify.context import Options
    from rmqstore.verify.engine import Verification

    verification = Verification(opened, Options(frozenset(parts), frozenset(topics), quick, threads))
    failed = _report(verification, view, known, limit)
    if failed:
        context.exit(EXIT_FINDINGS)


def _report(verification: Verification, view: View, known: Counter[Identity], limit: int | None) -> bool:
    """Writes findings and summary; whether a finding of severity error was among them."""
    from rmqstore.findings import Severity

    counts: Counter[str] = Counter()
    severities: Counter[str] = Counter()
    shown: Counter[str] = Counter()
    not_new = 0
    total = verification.total_bytes
    covered = 0

    def told() -> str:
        return f"verified {covered} of {total} bytes of the commit log, {sum(counts.values())} findings so far"

    on_interrupt(told)
    output = view.output()
    with view.progress("verify", total or None) as bar:

        def advance(count: int) -> None:
            nonlocal covered
            covered += count
            bar.advance(count)

        for finding in verification.run(advance):
            if known[_identity(finding.as_json())] > 0:
                known[_identity(finding.as_json())] -= 1
                not_new += 1
                continue
            counts[finding.code] += 1
            severities[str(finding.severity)] += 1
            if limit is None or shown[finding.code] < limit:
                shown[finding.code] += 1
                output.finding(finding)
    totals = verification.totals
    summary: dict[str, Any] = {
        "findings": sum(counts.values()),
        "severities": {str(severity): severities[str(severity)] for severity in Severity},
        "codes": dict(sorted(counts.items())),
        "bytes": totals.bytes,
        "records": totals.records,
        "queues": totals.queues,
        "indexed_keys": totals.indexed_keys,
        "seconds": round(totals.seconds, 3),
        "bytes_per_second": round(totals.bytes / totals.seconds) if totals.seconds else 0,
    }
    if not_new:
        summary["in_baseline"] = not_new
    output.summary(summary)
    return severities[str(Severity.ERROR)] > 0


def _identity(finding: Mapping[str, Any]) -> Identity:
    """What makes a finding the same one in two runs: what it says and where, not how bad it is."""
    return tuple(
        finding.get(name) for name in ("code", "file", "position", "length", "offset", "topic", "queue_id", "queue_offset", "found")
    )


def _read_baseline(path: Path) -> Counter[Identity]:
    try:
        lines = path.read_text("utf-8").splitlines()
        found = [json.loads(line) for line in lines if line.strip()]
        return Counter(_identity(item) for item in found if item.get("type") == "finding")
    except OSError as error:
        raise UnreadableError(
            f"{path} could not be read: {error.strerror}.", "Give the output of an earlier `verify --format json`."
        ) from error
    except (ValueError, AttributeError) as error:
        raise UnreadableError(f"{path} is not the output of verify.", "Give the output of an earlier `verify --format json`.") from error
