"""Writes docs/findings.md and docs/loglines.md from the catalogue, docs/cli.md and the man page from the commands' own help, docs/json.md
from the schemas.

python docs/generate.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from rmqstore.catalogue import CATALOGUE, Entry
from rmqstore.catalogue.logline import Cause, LogLine
from rmqstore.catalogue.loglines import CAUSES, LOG_LINES
from rmqstore.cli import COMMANDS, group

DOCS = Path(__file__).resolve().parent
HELP_WIDTH = 110
MAN_WIDTH = 76

_OBJECTS = (
    *(
        "finding",
        "summary",
        "doctor",
        "unreadable",
        "gate",
        "recovery",
        "comparison",
        "plan",
        "transaction",
        "transaction-of-history",
        "fix",
    ),
    *("queue", "topic", "group", "pending", "timer", "message", "snapshot", "diff", "info", "stats", "summary-of-stats"),
    *("explanation", "code", "log_line", "message_id", "summary-of-explain"),
    *(
        "unit",
        "pre_blank",
        "batch_unit",
        "end_unit",
        "ext_unit",
        "index_header",
        "index_slot",
        "index_item",
        "checkpoint",
        "timercheck",
        "timer_unit",
        "timer_blank",
        "timer_slot",
        "blank",
        "damage",
        "lock",
        "abort",
        "config",
        "rocksdb_entry",
        "text",
        "property",
        "epoch_header",
        "epoch",
        "compaction_position",
        "dledger_entry",
        "dledger_end",
        "dledger_index_unit",
        "tiered_index_header",
        "tiered_index_slot",
        "tiered_index_item",
    ),
)
"""The schemas in the order of the page."""

_FAMILIES = {
    "ST": "The store as a whole",
    "CL": "Commit log",
    "CQ": "Consume queues",
    "CM": "Compaction store",
    "IX": "Index files",
    "CP": "Checkpoint",
    "TM": "Timer",
    "CF": "Configuration",
    "RD": "RocksDB databases",
    "DL": "DLedger",
    "TI": "Tiered storage",
}


def findings_page() -> str:
    """The text of docs/findings.md."""
    return "\n".join(_findings_lines())


def loglines_page() -> str:
    """The text of docs/loglines.md."""
    return "\n".join(_loglines_lines())


def cli_page() -> str:
    """The text of docs/cli.md."""
    return "\n".join(_cli_lines())


def man_page() -> str:
    """The text of docs/rmqstore.1, for `man`."""
    return "\n".join(_man_lines())


def _man_lines() -> Iterator[str]:
    yield '.\\" Written by docs/generate.py from the help of the commands.'
    yield '.TH RMQSTORE 1 "" "rmqstore" "User Commands"'
    yield from (".SH NAME", r"rmqstore \- inspect, verify and repair the store directory of an Apache RocketMQ broker")
    yield from (".SH SYNOPSIS", ".B rmqstore", "COMMAND STORE [OPTIONS]")
    for name in ("", *COMMANDS):
        path = f"rmqstore {name}".rstrip()
        command = group.get_command(click.Context(group), name) if name else group
        assert command is not None
        yield f".SH {path.upper()}"
        yield ".nf"
        for line in _help_of(path, command, MAN_WIDTH).splitlines():
            text = line.replace("\\", "\\e").replace("-", r"\-")
            yield rf"\&{text}" if text.startswith((".", "'")) else text
        yield ".fi"
    yield ""


def json_page() -> str:
    """The text of docs/json.md."""
    return "\n".join(_json_lines())


def _json_lines() -> Iterator[str]:
    yield "# JSON of the commands"
    yield ""
    yield "<!-- Written by docs/generate.py from rmqstore/schemas. -->"
    yield ""
    yield "`--format json` (or `--json`) prints one JSON object per line. `type` names the kind of object; each table below is one of them,"
    yield "and a JSON Schema in the package: `importlib.resources.files('rmqstore') / 'schemas'`. A member that is not marked *optional*"
    yield "is always there. `schema` is 1; it increases when a member of an object changes its meaning or is removed. New members may be"
    yield "added at any time, so a program should ignore unknown ones. Offsets, positions and lengths are bytes unless the text says queue"
    yield "offset; times are milliseconds since the epoch."
    folder = files("rmqstore") / "schemas"
    for name in _OBJECTS:
        yield from _object_lines(json.loads((folder / f"{name}.json").read_text("utf-8")))
    yield ""


def _object_lines(schema: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", f"## {schema['title']}", "", schema["description"], "", "| member | type | meaning |", "|---|---|---|")
    for name, member in schema["properties"].items():
        optional = "" if name in schema["required"] else ", optional"
        yield f"| `{name}` | {_types_of(member)}{optional} | {member['description']} |"
    if "$comment" in schema:
        yield from ("", schema["$comment"])


def _types_of(member: Mapping[str, Any]) -> str:
    if "const" in member:
        return "string"
    types = member.get("type", "any")
    return " or ".join("list" if one == "array" else one for one in ([types] if isinstance(types, str) else types))


def _findings_lines() -> Iterator[str]:
    yield "# Findings"
    yield ""
    yield "<!-- Written by docs/generate.py from rmqstore/catalogue. -->"
    yield ""
    yield "Codes never change meaning. `rmqstore explain CODE` prints the same text. Severity: *error* – data is damaged, or a broker"
    yield "will lose, hide, misdeliver or refuse messages or not start; *warning* – suspicious, or harmful later; *info* – normal."
    yield "Findings that a crash normally causes have a lower severity while the file `abort` indicates a crash."
    for family, entries in groupby(CATALOGUE.values(), key=lambda entry: entry.code.split("-")[1]):
        yield ""
        yield f"## {_FAMILIES[family]}"
        for entry in entries:
            yield from _entry_lines(entry)
    yield ""


def _entry_lines(entry: Entry) -> Iterator[str]:
    after_crash = f", after a crash {entry.crash_severity}" if entry.crash_severity is not None else ""
    yield ""
    yield f"### {entry.code}"
    yield ""
    yield f"**{entry.title}** – {entry.severity}{after_crash}"
    yield ""
    yield entry.meaning
    yield ""
    yield "| release | what a broker does |"
    yield "|---|---|"
    for releases, text in entry.broker.items():
        yield f"| {releases} | {text.replace('|', '&#124;')} |"
    yield ""
    yield f"What to do: {entry.mend}"


def _loglines_lines() -> Iterator[str]:
    yield "# Log lines"
    yield ""
    yield "<!-- Written by docs/generate.py from rmqstore/catalogue/loglines. -->"
    yield ""
    yield "The lines that brokers print about their store in store.log, broker.log and storeerror.log, with names for the values of a line."
    yield "`rmqstore explain 'LINE'` prints the same text, `rmqstore explain --log FILE STORE` reads a whole log and looks up in the store"
    yield "what its lines name. The severity is that of the event, not the level of the line: *harmless* lines are often printed as WARN."
    yield "[reports.md](reports.md) has lines that users quoted in public, with what had happened."
    for line in LOG_LINES.values():
        yield from _logline_lines(line)
    yield ""
    yield "# Exceptions"
    yield ""
    yield "Java exceptions below a line, and what they say about its cause."
    for cause in CAUSES.values():
        yield from _cause_lines(cause)
    yield ""


def _logline_lines(line: LogLine) -> Iterator[str]:
    yield ""
    yield f"## {line.code}"
    yield ""
    yield f"**{line.severity or 'harmless'}** – releases: {line.releases}"
    yield from _text_lines(line)
    yield ""
    yield line.meaning
    yield ""
    yield f"The broker: {line.then}"
    yield from _next_lines(line)


def _cause_lines(cause: Cause) -> Iterator[str]:
    yield ""
    yield f"## {cause.code}"
    yield ""
    yield f"**{cause.severity}**"
    yield from _text_lines(cause)
    yield ""
    yield cause.meaning
    yield from _next_lines(cause)


def _text_lines(row: LogLine | Cause) -> Iterator[str]:
    yield ""
    yield "```text"
    yield from (pattern.text for pattern in row.patterns)
    yield "```"


def _next_lines(row: LogLine | Cause) -> Iterator[str]:
    yield ""
    codes = f"Findings: {', '.join(f'[{code}](findings.md#{code.lower()})' for code in row.codes)}. " if row.codes else ""
    yield f"{codes}Next: `{row.next}`"


def _cli_lines() -> Iterator[str]:
    yield "# Command line"
    yield ""
    yield "<!-- Written by docs/generate.py from the commands' help. -->"
    yield from _help_block("rmqstore", group)
    root = click.Context(group, info_name="rmqstore")
    for name in COMMANDS:
        command = group.get_command(root, name)
        if command is not None:
            yield ""
            yield f"## {name}"
            yield from _help_block(f"rmqstore {name}", command)
    yield ""


def _help_block(path: str, command: click.Command) -> Iterator[str]:
    yield ""
    yield "```"
    yield f"$ {path} --help"
    yield _help_of(path, command, HELP_WIDTH)
    yield "```"


def _help_of(path: str, command: click.Command, width: int) -> str:
    context = click.Context(command, info_name=path, terminal_width=width, max_content_width=width, help_option_names=["-h", "--help"])
    return command.get_help(context)


def main() -> None:
    """Write the pages."""
    (DOCS / "findings.md").write_text(findings_page(), encoding="utf-8")
    (DOCS / "loglines.md").write_text(loglines_page(), encoding="utf-8")
    (DOCS / "cli.md").write_text(cli_page(), encoding="utf-8")
    (DOCS / "json.md").write_text(json_page(), encoding="utf-8")
    (DOCS / "rmqstore.1").write_text(man_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
