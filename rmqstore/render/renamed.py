"""An output that names a store by its URI where the program worked on a temporary copy of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rmqstore.findings import Finding
from rmqstore.render.output import Output
from rmqstore.shellwords import quoted


class Renamed:
    """Another output, with names of copies replaced: `names` has the URI by the path of the copy.

    A text that is the path becomes the URI, a path inside of a longer text the URI as a word of a shell, because it is part of a command.
    """

    def __init__(self, output: Output, names: Mapping[str, str]) -> None:
        self._output = output
        self._names = names

    def verdict(self, text: str) -> None:
        """Write a verdict."""
        self._output.verdict(self.value(text))

    def next(self, text: str) -> None:
        """Write the next step."""
        self._output.next(self.value(text))

    def rows(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> None:
        """Write rows as they come."""
        self._output.rows(map(self.value, rows), columns)

    def object(self, value: Mapping[str, Any]) -> None:
        """Write one object."""
        self._output.object(self.value(value))

    def finding(self, finding: Finding) -> None:
        """Write one finding."""
        names = self._names
        texts = {"message": renamed(finding.message, names), "mend": renamed(finding.mend, names), "store": renamed(finding.store, names)}
        self._output.finding(replace(finding, **texts))

    def explanation(self, value: Mapping[str, Any]) -> None:
        """Write one entry of the catalogue."""
        self._output.explanation(value)

    def log_line(self, value: Mapping[str, Any]) -> None:
        """Write one explained kind of log lines."""
        self._output.log_line(value)

    def summary(self, value: Mapping[str, Any]) -> None:
        """Write what was covered and counted."""
        self._output.summary(self.value(value))

    def value(self, value: Any) -> Any:
        """Return a value of JSON with the names replaced in all its texts."""
        return renamed(value, self._names)


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return a value of JSON with the names replaced in all its texts, as `Renamed` does."""
    if isinstance(value, str):
        for path, uri in names.items():
            value = uri if value == path else value.replace(path, quoted(uri))
        return value
    if isinstance(value, Mapping):
        return {key: renamed(item, names) for key, item in value.items()}
    return [renamed(item, names) for item in value] if isinstance(value, list | tuple) else value
