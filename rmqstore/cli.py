"""Command-line entry point: finds the command, runs it, and maps every outcome to one line and an exit status."""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from types import TracebackType
from typing import Any, NamedTuple

import click

from rmqstore import __version__
from rmqstore.commands import defaults
from rmqstore.commands.common import INTERRUPTION_REPORT, WORDS
from rmqstore.errors import RmqstoreError
from rmqstore.terminal import printable

_OBJECTS_PER_SEARCH = 50_000
_PAGER = "RMQSTORE_PAGER"
EXIT_USAGE = 2
EXIT_FAILED = 4
EXIT_INTERRUPTED = 130


class CommandEntry(NamedTuple):
    """The module of a command (it exposes `command` there) and its line in `rmqstore --help`."""

    module: str
    summary: str


GROUPS: dict[str, dict[str, CommandEntry]] = {
    "Look": {
        "info": CommandEntry("rmqstore.commands.info", "Show releases, sizes and offsets of a store, and whether it stopped cleanly."),
        "dump": CommandEntry("rmqstore.commands.dump", "Decode any file or part of a store."),
        "query": CommandEntry("rmqstore.commands.query", "Find messages by key, message id, queue offset, time or physical offset."),
        "queues": CommandEntry("rmqstore.commands.queues", "List queues: offsets, entries, times, bytes."),
        "topics": CommandEntry("rmqstore.commands.topics", "List topics: queues, type, permissions, messages."),
        "groups": CommandEntry("rmqstore.commands.groups", "List consumer groups: offset, lag, next message of each queue."),
        "timers": CommandEntry("rmqstore.commands.timers", "List delayed and timed messages that are not delivered yet."),
        "pending": CommandEntry("rmqstore.commands.pending", "List open transactions and popped messages that were not acknowledged."),
        "diff": CommandEntry("rmqstore.commands.diff", "Compare stores that should be copies: master and slave, a store and its backup."),
        "history": CommandEntry("rmqstore.commands.history", "List the changes made to a store, and how to undo them."),
    },
    "Judge": {
        "doctor": CommandEntry("rmqstore.commands.doctor", "Report whether a broker starts on a store, what that costs, what to run next."),
        "verify": CommandEntry("rmqstore.commands.verify", "Check every record, consume queue entry and index entry against the others."),
        "predict": CommandEntry("rmqstore.commands.predict", "Predict what a broker does to a store at its next start."),
        "explain": CommandEntry("rmqstore.commands.explain", "Explain a finding code or a line of a broker's log, and what to do."),
    },
    "Repair": {
        "fix": CommandEntry("rmqstore.commands.fix", "Repair a store step by step: copy, verdict, plan, consent, repair, verification."),
        "recover": CommandEntry("rmqstore.commands.recover", "Repair a store, or predict what a broker will do to it."),
        "snapshot": CommandEntry("rmqstore.commands.snapshot", "Copy a stopped or running store so that a broker starts from the copy."),
        "truncate": CommandEntry("rmqstore.commands.truncate", "Cut the commit log at a record boundary, with consume queues and index."),
        "rebuild-consumequeue": CommandEntry("rmqstore.commands.rebuild_consumequeue", "Rebuild consume queues from the commit log."),
        "rebuild-index": CommandEntry("rmqstore.commands.rebuild_index", "Rebuild index files from the commit log."),
        "rebuild-checkpoint": CommandEntry(
            "rmqstore.commands.rebuild_checkpoint", "Rebuild the checkpoint that a clean stop would have left."
        ),
        "offsets": CommandEntry(
            "rmqstore.commands.offsets", "Set the offsets of a consumer group: to a time, to the end, or as another store has them."
        ),
        "convert": CommandEntry("rmqstore.commands.convert", "Move queues and configuration from RocksDB into files, or back."),
        "merge-paths": CommandEntry("rmqstore.commands.merge_paths", "Bring the files of several commit log directories into one."),
        "apply": CommandEntry("rmqstore.commands.apply", "Apply a saved plan, or continue an interrupted one."),
        "undo": CommandEntry("rmqstore.commands.undo", "Undo the changes of a writing command."),
    },
    "Data": {
        "stats": CommandEntry(
            "rmqstore.commands.stats", "Count messages and bytes by topic, queue, time, tag, host, size; reclaimable bytes."
        ),
        "export": CommandEntry("rmqstore.commands.export", "Export messages as JSON lines, CSV or Parquet; resumable."),
        "sql": CommandEntry("rmqstore.commands.sql", "Query a store in SQL: messages, consume queues, index, timer, findings."),
    },
    "Shell": {
        "completion": CommandEntry(
            "rmqstore.commands.completion", "Print the script by which bash, zsh or fish complete commands and options."
        ),
    },
}
"""The commands by the groups of `rmqstore --help`."""

COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}


class LazyGroup(click.Group):
    """A group that imports a command when it is run; it lists commands from the table alone."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = import_module(entry.module).command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"there is no command {args[0]!r}{_suggestion(args[0])}")
        found = super().resolve_command(ctx, args)
        name, command, _ = found
        if name is not None and command is not None:
            ctx.default_map = {name: defaults.applied(name, command, (ctx.default_map or {}).get(name, {}))}
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, entries in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), entry.summary) for name, entry in entries.items()])


def _suggestion(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, COMMANDS, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; commands are {', '.join(COMMANDS)}"


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="Exit status: 0 nothing wrong, 1 findings of severity error, 2 usage, 3 refused, 4 could not read or write, 130 interrupted. "
    "Defaults of options: variables such as RMQSTORE_VERIFY_THREADS, and ~/.config/rmqstore/config.toml. RMQSTORE_PAGER names a pager.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an unexpected failure.")
@click.option("--quiet", is_flag=True, help="As the option of the commands.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="As the option of the commands.")
@click.version_option(__version__, "-V", "--version", prog_name="rmqstore", message="%(prog)s %(version)s")
def group(debug: bool, quiet: bool, color: str) -> None:
    """Inspect, verify and repair the store directory of an Apache RocketMQ broker, offline. Every repair is a plan that can be undone."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status and never raise.

    A command ends normally by returning (status 0) or by `ctx.exit(status)`.
    """
    if "_RMQSTORE_COMPLETE" in os.environ:
        group.main(prog_name="rmqstore")
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        set_up_process()
    meta: dict[str, Any] = {}
    try:
        status = _run(list(words), meta)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        _forget_stdout()
        return 0
    except KeyboardInterrupt:
        return _interrupted(meta)
    except RmqstoreError as error:
        fetching = sys.modules.get("rmqstore.pipeline.fetching")  # loaded where a store has a URI, which errors have to name
        shown = error if fetching is None else fetching.named(error)
        return _failed(shown.message, shown.hint, shown.exit_status)
    except OSError as error:
        if "--debug" in words:
            raise
        place = f"{error.filename}: " if error.filename else ""
        return _failed(f"{place}{error.strerror or error}", "check the path, its permissions and its disk", EXIT_FAILED)
    except MemoryError:
        return _failed("out of memory", "give the process more memory, or process one part at a time with --part", EXIT_FAILED)
    except Exception as error:
        if "--debug" in words:
            raise
        what = f"unexpected {type(error).__name__}: {error}".splitlines()[0]
        return _failed(what, "this is a defect of rmqstore; `rmqstore --debug ...` shows where, please report it", EXIT_FAILED)


def set_up_process() -> None:
    """Configure the process for running a single command."""
    # Many objects are loaded and none becomes garbage: searching for garbage takes 0.1 s while running and 0.15 s at the end.
    gc.set_threshold(_OBJECTS_PER_SEARCH, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)
    # The linear algebra of numpy, which is not used, would start a busy-waiting thread per processor.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.excepthook = _traceback


def _traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback that --debug asks for; messages in it hold names from the store."""
    _say("".join(traceback.format_exception(kind, error, trace)).rstrip("\n"))


def _run(words: list[str], meta: dict[str, Any]) -> int:
    # click's own main() answers a closed pipe with status 1, which here means "findings"; so its steps are called one by one.
    try:
        # --debug may be given anywhere; --quiet and --color of the group are looked up by the views of the commands.
        anywhere = sorted(words, key=lambda word: word != "--debug")
        with group.make_context("rmqstore", anywhere, default_map=defaults.configured(COMMANDS)) as context:
            context.meta[INTERRUPTION_REPORT] = meta
            context.meta[WORDS] = tuple(words)
            with _output_of(words):
                group.invoke(context)
        return 0
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except click.exceptions.NoArgsIsHelpError as ending:
        _show(ending)
        return EXIT_USAGE
    except click.ClickException as mistake:
        _show(mistake)
        return EXIT_USAGE
    except click.Abort:
        raise KeyboardInterrupt from None


def _output_of(words: Sequence[str]) -> AbstractContextManager[None]:
    """Return the pager, if one is named, for commands that only show something: others ask questions."""
    name = next((word for word in words if word in COMMANDS), "")
    if _PAGER not in os.environ or name not in {**GROUPS["Look"], **GROUPS["Judge"]}:
        return nullcontext()
    from rmqstore.render.pager import paged

    return paged()


def _show(mistake: click.ClickException) -> None:
    shown = io.StringIO()
    mistake.show(shown)
    _say(shown.getvalue().rstrip("\n"))


def _say(text: str) -> None:
    """Write lines to standard error."""
    for line in text.split("\n"):
        click.echo(printable(line), err=True)


def _interrupted(meta: dict[str, Any]) -> int:
    report = meta.get("report")
    covered = f": {report()}" if report is not None else ""
    print("\n" + printable(f"interrupted{covered}"), file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:
        _forget_stdout()
    return EXIT_INTERRUPTED


def _failed(message: str, hint: str, status: int) -> int:
    from rmqstore.render.console import wants_color

    try:
        sys.stdout.flush()
    except OSError:
        _forget_stdout()
    click.secho(printable(f"error: {message}"), fg="red", err=True, color=wants_color(sys.stderr, "auto"))
    click.echo(printable(f"hint: {hint}"), err=True)
    return status


def _forget_stdout() -> None:
    # The interpreter flushes stdout once more at exit and would complain about the closed pipe.
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return
