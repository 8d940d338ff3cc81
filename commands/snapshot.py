"""`rmqstore snapshot`: copy a stopped or running store so that a broker starts from the copy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from rmqstore.commands.common import (
    NOTHING_TO_DO,
    View,
    broker_version_option,
    next_command,
    output_options,
    store_argument,
    store_options,
)
from rmqstore.commands.pacing import rate_limit_option
from rmqstore.errors import UsageError

_INCOMPLETE = 1


@click.command("snapshot", short_help="Copy a stopped or running store so that a broker starts from the copy.")
@store_argument
@click.argument("target", type=click.Path(path_type=Path), metavar="DEST")
@click.option("--link", is_flag=True, help="Make hard links to full files of the log. A recovery that cuts the log changes both then.")
@click.option(
    "--since",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="MANIFEST",
    help="DEST.manifest.json of an earlier snapshot on the same file system: full log files that did not change since are not copied, but "
    "shared with it.",
)
@broker_version_option
@rate_limit_option
@store_options
@output_options
@click.pass_context
def command(
    context: click.Context,
    store: Path,
    target: Path,
    link: bool,
    since: Path | None,
    broker_version: str,
    broker_conf: Path | None,
    settings: Mapping[str, str],
    view: View,
) -> None:
    """Copy STORE to DEST, a directory that does not exist or is empty, with holes and times; nothing is written into STORE.

    A broker can write to STORE meanwhile. The log is copied last, up to its last whole record; then queues, index, checkpoint and abort of
    the copy are made to agree with it, as after a clean stop, and the copy is verified. Where the file system shares blocks, files
    take no time and no space. DEST.manifest.json lists the files with SHA-256. The exit status is 1 if the log of STORE is damaged: the
    copy is as it was found then.
    """
    if link and since is not None:
        raise UsageError("--link and --since exclude each other.", "With --link nothing of the log is copied.")
    from rmqstore.repair.snapshot.manifest import describe, write_manifest
    from rmqstore.repair.snapshot.take import take_snapshot
    from rmqstore.scan.compilation import compile_kernels
    from rmqstore.store.root import Store
    from rmqstore.wording import counted

    compile_kernels(quiet=view.quiet)
    opened = Store.open(store, broker_conf=broker_conf, settings=settings)
    with view.progress("snapshot", opened.commitlog.length or None) as bar:
        taken = take_snapshot(opened, target, broker_version, link=link, since=since, advance=bar.advance)
    described = describe(taken)
    path = write_manifest(taken, described)
    sound = taken.complete and not taken.errors
    output = view.output()
    output.verdict(f"{'COPIED' if sound else 'DAMAGED: copied as it was found'}: {counted(len(described['files']), 'file')}")
    output.object(described if view.format == "json" else _shown(described, path))
    output.next(NOTHING_TO_DO if sound else next_command("doctor", target, broker_conf, settings))
    context.exit(0 if sound else _INCOMPLETE)


def _shown(described: Mapping[str, Any], manifest: Path) -> dict[str, Any]:
    from rmqstore.times import time_text

    notes = [{"note": note} for note in described["notes"]]
    return {
        "snapshot": described["target"],
        "log": f"{described['begin']} to {described['end']}, up to {time_text(described['last_store_timestamp']) or 'no record'}",
        "files": f"{described['copied']} copied, {described['cloned']} by reference, {described['linked']} linked, "
        f"{described['shared']} shared with the earlier copy",
        "bytes read": described["copied_bytes"],
        "manifest": str(manifest),
        "verification": "no errors" if not described["errors"] else f"{sum(described['errors'].values())} errors",
        **({"notes": notes} if notes else {}),
    }
