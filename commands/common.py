"""Options that several commands share, and their access to the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqstore.render.output import Output
    from rmqstore.render.progress import Bar

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

INTERRUPTION_REPORT = "rmqstore.interruption_report"
WORDS = "rmqstore.words"
COPIES = "rmqstore.copies"
"""Members of the context: the function that reports an interruption, the words of the command line, and URIs by the paths of copies."""

_VERSION = re.compile(r"auto|\d+\.\d+\.\d+")


@dataclass(frozen=True, slots=True)
class View:
    """Requested form of output: made by `output_options`, passed to the command as `view`."""

    format: str
    quiet: bool
    show_progress: bool
    color: str
    csv_raw: bool = False
    verbose: bool = False

    def output(self, *, data: bool = False, plain: bool = False) -> Output:
        """Return the writer of standard output for the chosen format; `data`: for output that --quiet does not leave out.

        `plain`: for rows that are no objects of the package, which have no schema.
        """
        from rmqstore.render.output import open_output

        quiet = self.quiet and not data
        return with_uris(open_output(self.format, color=self.color, quiet=quiet, verbose=self.verbose, csv_raw=self.csv_raw, plain=plain))

    def verdict_of_data(self, text: str, *, bad: bool = False) -> None:
        """Write the verdict of a command that prints data alone to standard error; beside JSON only a bad one, and not with --quiet."""
        if self.format != "json" or (bad and not self.quiet):
            from rmqstore.render.progress import note

            note(text)

    def progress(self, label: str, total: int | None, unit: str = "bytes") -> AbstractContextManager[Bar]:
        """Return a progress bar over `total` units (None: not known), silent with --quiet, --no-progress and without a terminal."""
        from rmqstore.render.progress import progress

        return progress(label, total, enabled=self.show_progress and not self.quiet, unit=unit)


def with_uris(output: Output) -> Output:
    """Return an output that names stores by their URIs where this command works on temporary copies of them."""
    copies = uris_of_copies()
    if not copies:
        return output
    from rmqstore.render.renamed import Renamed

    return Renamed(output, copies)


def uris_of_copies() -> dict[str, str]:
    """Return the URIs of the stores of this command by the paths of the copies it works on."""
    context = click.get_current_context(silent=True)
    return {} if context is None else context.meta.setdefault(COPIES, {})


NOTHING_TO_DO = "Nothing to do."


def setting_words(broker_conf: Path | None, settings: Mapping[str, str]) -> list[str]:
    """Return the options that every command on a store with these settings needs."""
    words = [] if broker_conf is None else ["--broker-conf", str(broker_conf.absolute())]
    return [*words, *(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))]


def next_command(name: str, store: Path | str, broker_conf: Path | None, settings: Mapping[str, str]) -> str:
    """Return `rmqstore NAME STORE` with the settings, to paste."""
    from rmqstore.shellwords import command

    return command("rmqstore", name, store.absolute() if isinstance(store, Path) else store, *setting_words(broker_conf, settings))


def write_list(
    view: View, noun: str, rows: Iterable[Mapping[str, Any]], columns: tuple[str, ...] | None = None, step: str = NOTHING_TO_DO
) -> None:
    """Write the verdict, which is the number of rows, the rows, and the next step; rows that stream have the verdict at the end."""
    from rmqstore.wording import counted

    if isinstance(rows, list):
        output = view.output()
        output.verdict(f"LISTED {counted(len(rows), noun)}")
        output.rows(rows, columns)
        output.next(step)
        return
    written = 0

    def watched() -> Iterator[Mapping[str, Any]]:
        nonlocal written
        for row in rows:
            written += 1
            yield row

    output = view.output()
    output.rows(watched(), columns)
    output.next(step)
    output.verdict(f"LISTED {counted(written, noun)}")


def on_interrupt(report: Callable[[], str]) -> None:
    """Set the text of `interrupted: ...` after Ctrl-C, for example `verified 3 of 12 files, 1.2 GiB of 5.0 GiB`."""
    context = click.get_current_context()
    context.meta.setdefault(INTERRUPTION_REPORT, {})["report"] = report


def parse_settings(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Return `KEY=VALUE` options as a dictionary. Raises BadParameter."""
    settings = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{text!r} is not of the form key=value", context, parameter)
        settings[key.strip()] = value.strip()
    return settings


def _broker_settings(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Return settings of a broker, all of names that brokers know: a misspelled one would have no effect. Raises BadParameter."""
    settings = parse_settings(context, parameter, values)
    if settings:
        from difflib import get_close_matches

        from rmqstore.catalogue.settings import NAMES
        from rmqstore.store.links import setting_of
        from rmqstore.store.parts import PartKind

        known_names = NAMES | {setting_of(kind) for kind in PartKind}  # older releases, and this program, have paths of more parts
        by_lower = {known.lower(): known for known in known_names}
        for name in settings.keys() - known_names:
            close = [by_lower[text] for text in get_close_matches(name.lower(), by_lower, n=3)]
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            raise click.BadParameter(f"brokers have no setting {name!r}.{hint}", context, parameter)
    return settings


def _version(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not _VERSION.fullmatch(value):
        raise click.BadParameter(f"{value!r} is neither 'auto' nor a release such as 5.3.3", context, parameter)
    return value


store_argument = click.argument("store", type=click.Path(path_type=Path, readable=False))
"""STORE → `store: Path`; whether it exists and what it is, is checked by the package that opens it."""

broker_version_option = click.option(
    "--broker-version",
    default="auto",
    metavar="RELEASE",
    callback=_version,
    help="Release of the broker, for example 5.3.3; auto: determined from the store.",
)
"""--broker-version → `broker_version: str`, `auto` or three numbers with dots."""


def store_options(command: Decorated) -> Decorated:
    """--broker-conf and --set → `broker_conf: Path | None`, `settings: dict[str, str]`."""
    conf = click.option(
        "--broker-conf",
        type=click.Path(path_type=Path, dir_okay=False, readable=False),
        metavar="FILE",
        help="broker.conf of this store: sizes, paths and switches that cannot be determined from the files.",
    )
    setting = click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_broker_settings,
        help="One setting as in broker.conf; takes precedence over the file. May be repeated.",
    )
    return conf(setting(command))


def view_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--quiet, --verbose, --no-progress, --color and --tz → `view: View`, with text output."""

    @wraps(command)
    def with_view(
        *arguments: Any,
        quiet: bool,
        verbose: bool,
        no_progress: bool,
        color: str,
        output_format: str = "table",
        csv_raw: bool = False,
        **options: Any,
    ) -> Any:
        given = click.get_current_context().find_root().params
        quiet, color = quiet or given.get("quiet", False), color if color != "auto" else given.get("color", "auto")
        return command(*arguments, view=View(output_format, quiet, not no_progress, color, csv_raw, verbose), **options)

    for option in (
        click.option("--tz", metavar="ZONE", callback=_zone, expose_value=False, help="Time zone of times in text; default: UTC."),
        click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True, help="Colours."),
        click.option("--no-progress", is_flag=True, help="No progress bar."),
        click.option("-v", "--verbose", is_flag=True, help="Also findings and areas that need no action."),
        click.option("--quiet", is_flag=True, help="Of text only the verdict and errors; no progress bar, no notes."),
    ):
        with_view = option(with_view)
    return with_view


def _zone(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Set the time zone of all times in text. Raises BadParameter."""
    from rmqstore import times

    try:
        times.set_zone(value or "UTC")
    except (ValueError, LookupError, OSError) as error:
        raise click.BadParameter(f"{value!r} is no time zone such as UTC or Europe/Berlin", context, parameter) from error


csv_raw_option = click.option(
    "--csv-raw", is_flag=True, help="Leave CSV cells unchanged; otherwise one that a spreadsheet would execute begins with a single quote."
)
"""--csv-raw → `csv_raw: bool`."""


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--format, --json, --csv-raw, --quiet, --no-progress and --color → `view: View`."""

    viewed = view_options(command)

    @wraps(viewed)
    def with_format(*arguments: Any, output_format: str, as_json: bool, **options: Any) -> Any:
        return viewed(*arguments, output_format="json" if as_json else output_format, **options)

    output_format = click.option(
        "--format",
        "output_format",
        type=click.Choice(["table", "json", "csv"]),
        default="table",
        show_default=True,
        help="table: text; json: one object per line; csv.",
    )
    with_format = click.option("--json", "as_json", is_flag=True, help="Short for --format json.")(with_format)
    return output_format(csv_raw_option(with_format))
