"""One row of the table of broker log lines: how the line looks, what it means, what the broker does next.

A template is written as RocketMQ writes it, with a name for every value: `found a half message at {physical_offset}, it will be
truncated.` What a value may look like follows from its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from rmqstore.findings import Severity

_NUMBER = r"-?\d+"
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_TEXTS = frozenset({"file", "previous_file", "topic", "key", "text", "role", "address", "ratio"})
_SPECIAL = {"magic": r"[0-9a-f]{1,8}", "state": r"\w+", "new_state": r"\w+", "answer": r"\w+"}
_FIXED_RELEASES = {("4.9", None): "all", ("4.9", "4.9"): "4.9.x", ("5.0", None): "5.x", ("3.0", "4.8"): "before 4.9"}
_BLANKS = re.compile(r"\s+")
_ENDS = " \t\r\n]})>,;.…\"'`|\\"
_SPELLINGS = (("maped", "mapped"), ("Maped", "Mapped"), ("ostion", "osition"), ("mappedfile", "mappedFile"), ("excuted", "executed"))
_ASCII = str.maketrans("，：；（）【】“”‘’。！\u00a0\u3000", ",:;()[]\"\"''.!  ")


class About(StrEnum):
    """The part of a store that a log line is about, apart from the places that it names."""

    ABORT = "abort"
    COMMITLOG = "commitlog"
    CHECKPOINT = "checkpoint"
    LOCK = "lock"
    DISK = "disk"


def plain(text: str) -> str:
    """Return a text as it is compared loosely: single blanks, ASCII punctuation, none of it at the end, spellings of today."""
    text = _BLANKS.sub(" ", text.translate(_ASCII)).strip()
    for old, new in _SPELLINGS:
        text = text.replace(old, new)
    return text if _PLACEHOLDER.search(text[text.rfind("{") :]) and text.endswith("}") else text.rstrip(_ENDS)


def is_physical_offset(name: str) -> bool:
    """Return whether a value of this name is an offset in bytes of the commit log that can be looked up in a store."""
    return name == "physical_offset" or name.endswith("_physical_offset")


@dataclass(frozen=True)
class Pattern:
    """A text of log lines or of Java exceptions. `text` has a `{name}` for every value; `values` narrows what a value looks like."""

    text: str
    values: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """The expression that matches a whole message; its groups have the names of the values.

        A text ends where the literal after it first occurs, and is never tried again (the atomic group): the time a match takes grows
        with the length of the message and no faster, whatever the log contains.
        """
        return self._expression(*self._pieces)

    @cached_property
    def plain(self) -> Pattern:
        """The pattern for texts that `plain` returned."""
        return Pattern(plain(self.text), self.values)

    def _expression(self, literals: list[str], names: list[str]) -> re.Pattern[str]:
        expression = re.escape(literals[0])
        for name, literal in zip(names, literals[1:], strict=True):
            form = self._form(name)
            if form is None:
                following = re.escape(literal)
                expression += f"(?>(?P<{name}>.*?){following})" if literal else f"(?P<{name}>.*)"
            else:
                expression += f"(?P<{name}>{form}){re.escape(literal)}"
        return re.compile(expression, re.DOTALL)

    @property
    def beginning(self) -> str:
        """The literal text before the first value."""
        return self._pieces[0][0]

    @cached_property
    def longest_literal(self) -> str:
        """The longest text without a value; a message without it cannot match."""
        return max(self._pieces[0], key=len)

    @property
    def _pieces(self) -> tuple[list[str], list[str]]:
        """The literal texts, and the names of the values between them."""
        pieces = _PLACEHOLDER.split(self.text)
        return pieces[::2], pieces[1::2]

    def _form(self, name: str) -> str | None:
        """Return the expression of a value; None for any text."""
        if name in self.values:
            return self.values[name]
        stem = name.rstrip("0123456789")
        return None if stem in _TEXTS else _SPECIAL.get(stem, _NUMBER)


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """A line that brokers log about their store. `severity` None: nothing is wrong, whatever the level. Codes never change meaning."""

    code: str
    severity: Severity | None
    patterns: tuple[Pattern, ...]
    meaning: str
    then: str
    next: str
    codes: tuple[str, ...] = ()
    since: str = "4.9"
    until: str | None = None
    about: About | None = None

    @property
    def template(self) -> str:
        """The line as RocketMQ writes it, with names for its values."""
        return self.patterns[0].text

    @property
    def releases(self) -> str:
        """The releases that print it, in words."""
        return releases_text(self.since, self.until)

    @property
    def since_numbers(self) -> tuple[int, ...]:
        """The first release as numbers."""
        return _numbers(self.since)


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A Java exception below a log line: what it says about the reason. The text begins with `java.`, the class of the exception."""

    code: str
    patterns: tuple[Pattern, ...]
    meaning: str
    next: str
    severity: Severity
    codes: tuple[str, ...] = ()
    about: About | None = None

    @property
    def template(self) -> str:
        """The exception as Java prints it, with names for its values."""
        return self.patterns[0].text


def line(
    code: str,
    severity: Severity | None,
    *texts: str | Pattern,
    meaning: str,
    then: str,
    next: str,
    codes: tuple[str, ...] = (),
    since: str = "4.9",
    until: str | None = None,
    about: About | None = None,
) -> LogLine:
    """Return a row of the table; texts without narrowed values are given as they are."""
    patterns = tuple(text if isinstance(text, Pattern) else Pattern(text) for text in texts)
    return LogLine(
        code=code,
        severity=severity,
        patterns=patterns,
        meaning=meaning,
        then=then,
        next=next,
        codes=codes,
        since=since,
        until=until,
        about=about,
    )


def releases_text(since: str, until: str | None) -> str:
    """Return a range of releases in words."""
    fixed = _FIXED_RELEASES.get((since, until))
    if fixed is not None:
        return fixed
    if until is None:
        return f"{since} and later"
    return f"up to {until}" if since == "4.9" else f"{since} to {until}"


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))
