"""Corrections of damaged names in JSON files of the configuration, where only one name can have been there.

A member that no release writes, one or two letters away from one that is missing, is that member. Of an entry and the name inside of it
the one is right that the rest of the store knows, or the other copy of the file, if they do not know the other name. All other bytes stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rmqstore.formats.naming import is_broker_group, is_broker_topic
from rmqstore.repair.derived.rescue.topics import Known
from rmqstore.verify.parts import config
from rmqstore.verify.parts.confignames import DamagedName, alike, damaged_names

Exists = Callable[[str], bool]


class Correction(NamedTuple):
    """A name at the bytes [start, end) of a file, and the right one."""

    start: int
    end: int
    old: str
    new: str

    def applied(self, data: bytes) -> bytes:
        """Return the file with the right name; apply those of one file from its end on."""
        return data[: self.start] + self.new.encode() + data[self.end :]


def corrected_names(
    name: str, read: Callable[[], bytes], text: config.Text, known: Callable[[], Known], other: config.Text | None = None
) -> list[Correction]:
    """Return the corrections, from the end of a configuration file on, of damaged names that are certain; `text` is its content.

    `read`: its bytes, only called with damaged names; `known`: what the rest of the store names, only called for entries with two names.
    `other`: the file of which it is the `.bak`, or the other way round. Raises UnreadableError.
    """
    damaged = damaged_names(text)
    if not damaged:
        return []
    data = read()
    beside = config.table_of(other) if other is not None and other.state is config.State.WHOLE else {}
    found = (_correction(name, data, one, known, beside) for one in damaged)
    table = config.table_of(text)
    # An entry whose key would be there twice stays.
    return sorted((one for one in found if one is not None and not (one.old in table and one.new in table)), reverse=True)


def _correction(name: str, data: bytes, damaged: DamagedName, known: Callable[[], Known], beside: Mapping[str, Any]) -> Correction | None:
    """Return the correction if there is one place and one answer."""
    if damaged.right is None:
        return None
    old, new, pattern = damaged.found, damaged.right, rb'"(%s)"\s*:'
    if damaged.member is not None:
        of_old, of_new = old in beside, new in beside
        if of_old == of_new:
            exists = _group_exists(known()) if name == config.GROUPS else _topic_exists(known())
            of_old, of_new = exists(old), exists(new)
        if not alike(old, new) or of_old == of_new:
            return None
        if of_old:
            old, new, pattern = new, old, rb'"(%s)"\s*:\s*\{'
        else:
            pattern = rb'"%s"\s*:\s*"(%%s)"' % re.escape(damaged.member.encode())
    # For a byte that is not UTF-8, the name has another character, which is escaped in what is written from the rest of a file.
    shown = b"".join(rb"(?:[\x80-\xff]|\\ufffd)" if letter == "\ufffd" else re.escape(letter.encode()) for letter in old)
    places = list(re.finditer(pattern % shown, data))
    return Correction(*places[0].span(1), old, new) if len(places) == 1 else None


def _topic_exists(known: Known) -> Exists:
    return lambda topic: is_broker_topic(topic) or (topic in known.topics and known.topics[topic].has_queues)


def _group_exists(known: Known) -> Exists:
    return lambda group: is_broker_group(group) or group in known.active
