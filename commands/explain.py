"""`rmqstore explain`: the meaning of a finding code or a broker's log line, what each broker release does, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqstore.commands.common import NOTHING_TO_DO, View, on_interrupt, output_options, store_options, write_list
from rmqstore.errors import UnreadableError, UsageError
from rmqstore.shellwords import command as command_line
from rmqstore.wording import counted

if TYPE_CHECKING:
    from rmqstore.brokerlog.explanation import Explainer
    from rmqstore.brokerlog.groups import Group
    from rmqstore.brokerlog.lines import LogFile
    from rmqstore.render.output import Output
    from rmqstore.render.progress import Bar

_CODE = re.compile(r"[A-Za-z]+(-[A-Za-z0-9]+)+")
_LINES_PER_STEP = 2000
_LENGTHS_OF_IDS = (32, 34, 56)
EXIT_UNKNOWN = 1


@click.command("explain", short_help="Explain a finding code or a line of a broker's log, and what to do.")
@click.argument("words", nargs=-1, metavar="[CODE...|LINE|MESSAGE-ID|STORE]")
@click.option(
    "--log",
    "log",
    type=click.Path(path_type=Path, readable=False, allow_dash=True),
    metavar="FILE",
    help="Explain a whole log file: store.log, broker.log, storeerror.log, plain or gzip; - reads standard input.",
)
@click.option(
    "--store",
    type=click.Path(path_type=Path, readable=False),
    metavar="STORE",
    help="Store in which to look up what the lines name. With --log it may be given without the option's name.",
)
@click.option("--list", "list_all", is_flag=True, help="List all finding codes with severity and title.")
@store_options
@output_options
def command(
    words: tuple[str, ...],
    log: Path | None,
    store: Path | None,
    list_all: bool,
    broker_conf: Path | None,
    settings: Mapping[str, str],
    view: View,
) -> None:
    """Explain finding codes such as RMQ-CL-CRC, or what a broker logged about its store.

    \b
    rmqstore explain RMQ-CL-CRC                        a finding: meaning, what brokers do, how to fix it
    rmqstore explain 'found a illegal magic code 0x0'  a line of a log
    rmqstore explain AC11000200002A9F0000000000000369  a message id: host, and offset or time
    rmqstore explain --log store.log STORE             a log file, and what it means for this store

    Codes are not case-sensitive, and the leading RMQ- may be omitted. A line is recognised in any pattern of a log, with stack traces
    and what clients print (CODE: 14 DESC: ...); if none fits, the nearest ones are listed, and the exit status is 1. In a log file,
    equal lines are counted together, the worst come first, harmless ones are only counted, and warnings and errors that are not in the
    table are listed as unknown. With a store, the offsets, files and queues that lines name are looked up in its present state, without
    changing a byte. Lines are not findings: the exit status of a log file stays 0.
    """
    if log is not None:
        if len(words) > 1 or (words and store is not None):
            raise UsageError("--log takes one store at most", "rmqstore explain --log store.log STORE")
        place = Path(words[0]) if words else store
        _explain_log(log, place, _explainer(place, broker_conf, settings), view)
        return
    if not words and not list_all:
        raise UsageError("no finding code and no log line given", "rmqstore explain RMQ-CL-CRC; all codes: rmqstore explain --list")
    if words and all(len(word) in _LENGTHS_OF_IDS for word in words) and _explain_ids(words, store, view):
        return
    lines = _lines(words)
    entries = [] if lines else [_known(code) for code in words]
    output = view.output()
    if list_all:
        _list_codes(view)
    for entry in entries:
        output.explanation(entry)
    if entries:
        worst = any(entry["severity"] != "info" for entry in entries)
        output.next(command_line("rmqstore", "doctor", store or "STORE") if worst else NOTHING_TO_DO)
    if lines:
        explainer = _explainer(store, broker_conf, settings, candidates=True)
        groups = list(_groups_of(lines))
        unknown = sum(group.line is None and group.cause is None for group in groups)
        output.verdict(
            f"UNKNOWN: of {counted(len(lines), 'line')}, {unknown} in no table" if unknown else f"EXPLAINED {counted(len(lines), 'line')}"
        )
        _write_groups(groups, explainer, output, store)
        if unknown:
            click.get_current_context().exit(EXIT_UNKNOWN)


def _write_groups(groups: Iterable[Group], explainer: Explainer, output: Output, store: Path | None) -> None:
    """Write what lines mean, and the next step of the first one that has one; `doctor` for lines that are not known."""
    step, known = None, True
    for group in groups:
        value = explainer.explain(group)
        output.log_line(value)
        nearest = [command_line("rmqstore", "explain", one["code"]) for one in value["candidates"]]
        step = step or next(filter(None, (value["next"], *nearest)), None)
        known = known and value["code"] is not None
    output.next(step or (NOTHING_TO_DO if known else command_line("rmqstore", "doctor", store or "STORE")))


def _list_codes(view: View) -> None:
    from rmqstore.catalogue import CATALOGUE

    rows = [
        {
            "type": "code",
            "code": entry.code,
            "severity": str(entry.severity),
            "after_crash": str(entry.severity_in(crashed=True)),
            "title": entry.title,
        }
        for entry in CATALOGUE.values()
    ]
    write_list(view, "code", rows, ("code", "severity", "after_crash", "title"))


def _known(code: str) -> dict[str, Any]:
    from rmqstore.catalogue import CATALOGUE

    entry = _entry(code, CATALOGUE)
    if entry is not None:
        found: dict[str, Any] = entry.as_json()
        return found
    from difflib import get_close_matches

    close = get_close_matches(f"RMQ-{code.upper().removeprefix('RMQ-')}", CATALOGUE, n=3, cutoff=0.6)
    hint = f"did you mean {', '.join(close)}?" if close else "rmqstore explain --list shows all codes; put a log line in quotes"
    raise UsageError(f"there is no finding code {code!r}", hint)


def _entry(code: str, catalogue: Mapping[str, Any]) -> Any:
    name = code.upper()
    return catalogue.get(name) or catalogue.get(f"RMQ-{name}")


def _lines(words: Sequence[str]) -> list[str]:
    """Return the log lines among the words; none if they are finding codes. A line without quotes arrives word by word."""
    from rmqstore.catalogue import CATALOGUE

    spaced = any(character.isspace() for word in words for character in word)
    if not words or (not spaced and any(_CODE.fullmatch(word) and _entry(word, CATALOGUE) for word in words)):
        return []
    if spaced and len(words) > 1 and not any(_CODE.fullmatch(word) for word in words):
        return [text for word in words for text in word.splitlines()]
    if spaced or (len(words) > 1 and not all(map(_CODE.fullmatch, words))):
        return " ".join(words).splitlines()
    return _lone_word(words[0]) if len(words) == 1 else []


def _lone_word(word: str) -> list[str]:
    """Return a log line or exception of one word; any other word is a mistyped code."""
    from rmqstore.catalogue.loglines import CAUSES, LOG_LINES, find_cause, find_line

    known = word.upper() in LOG_LINES or word.upper() in CAUSES or find_line(word) or find_cause(word)
    return [word] if known else []


def _groups_of(lines: Sequence[str]) -> Iterator[Group]:
    from rmqstore.brokerlog.groups import Groups, row_of_table
    from rmqstore.brokerlog.lines import entries

    row = row_of_table(lines[0]) if len(lines) == 1 else None
    if row is not None:
        yield row
        return
    groups = Groups(keep_quiet=True)
    for line in entries(lines):
        groups.add(line)
    yield from groups.by_importance(harmless=True)


def _explainer(store: Path | None, broker_conf: Path | None, settings: Mapping[str, str], *, candidates: bool = False) -> Explainer:
    from rmqstore.brokerlog.explanation import Explainer

    if store is None:
        return Explainer(candidates=candidates)
    from rmqstore.store.root import Store

    return Explainer(Store.open(store, broker_conf=broker_conf, settings=settings), candidates=candidates)


def _explain_ids(ids: Sequence[str], store: Path | None, view: View) -> bool:
    """Explain message ids; return False if one of the words is none."""
    from datetime import UTC, datetime

    from rmqstore.brokerlog.messageid import explained, is_message_id
    from rmqstore.render.text import labelled
    from rmqstore.shellwords import quoted

    if not all(map(is_message_id, ids)):
        return False
    output, values = view.output(), [explained(one, datetime.now(UTC)) for one in ids]
    for value in values:
        if store is not None:
            value["next"] = value["next"].replace("STORE", quoted(store), 1)
        output.verdict(f"{value['kind'].upper()} {value['id']}")
        output.object(value if view.format != "table" else labelled({name: item for name, item in value.items() if name != "next"}))
    output.next(values[0]["next"])
    return True


def _explain_log(path: Path, store: Path | None, explainer: Explainer, view: View) -> None:
    """Explain a log file. Raises UnreadableError; for a log that ends in damage, after the lines before it are explained."""
    from rmqstore.brokerlog.groups import Groups
    from rmqstore.brokerlog.lines import LogFile, entries

    log = LogFile(path)
    log.open()
    groups = Groups()
    on_interrupt(lambda: f"read {groups.lines} lines of the log")
    with view.progress("log", log.length or None) as bar:
        for line in entries(_watched(log, bar)):
            groups.add(line)
    output, totals = view.output(), groups.totals()
    output.verdict(
        f"READ {counted(groups.lines, 'line')}: {groups.explained} explained, {groups.harmless} harmless, {groups.unknown} unknown"
    )
    if view.format != "table":
        for group in groups.by_importance():
            output.log_line(explainer.explain(group))
        output.summary(totals)
    else:
        output.summary(totals)
        _write_groups(groups.by_importance(), explainer, output, store)
    if log.broken is not None:
        raise UnreadableError(f"{path} was read up to line {groups.lines}: {log.broken}.", "The lines before it are explained above.")


def _watched(log: LogFile, bar: Bar) -> Iterator[str]:
    """Yield the lines of the log and advance the bar."""
    done = 0
    for number, text in enumerate(log.texts()):
        if number % _LINES_PER_STEP == 0:
            bar.advance(log.position - done)
            done = log.position
        yield text
