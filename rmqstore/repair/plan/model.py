"""A plan: everything a repair will do to a store, as data. Nothing in it is code, and nothing is decided while it is applied.

Paths are relative to the store root with `/`; only a file of a commit log directory outside of the root is named by its absolute path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ActionKind(StrEnum):
    """The kind of an action. Setting `abort` is a create, removing it a quarantine, writing the checkpoint a write or a create."""

    WRITE = "write"
    ZERO = "zero"
    CREATE = "create"
    REPLACE = "replace"
    QUARANTINE = "quarantine"


class Phase(StrEnum):
    """The order in which the parts of a store change: derived files agree with the future log first, `abort` changes last."""

    QUEUES = "queues"
    INDEX = "index"
    TIMER = "timer"
    COMMITLOG = "commitlog"
    EPOCH = "epoch"
    CHECKPOINT = "checkpoint"
    CONFIG = "config"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class Attributes:
    """Permission bits, owner and modification time of a file or directory; `mtime_ns` None: it is not set."""

    mode: int
    uid: int
    gid: int
    mtime_ns: int | None


@dataclass(frozen=True, slots=True)
class Directory:
    """The state of a directory at or above the path of an action afterwards: made if it is missing, with these attributes; without
    attributes, removed as soon as it is empty."""

    path: str
    attributes: Attributes | None


@dataclass(frozen=True, slots=True)
class Contents:
    """New bytes: short ones as `data`, others in the file `file` of the plan's contents. `digest` is given in plans that are kept."""

    length: int
    data: bytes | None = None
    file: str | None = None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """The file that an action expects at its path: none (`size` None), or one of `size` bytes, last changed at `mtime_ns`, whose bytes
    in the range of the action have this `digest` (`fingerprint.digest`; None where the file is taken as a whole)."""

    size: int | None
    mtime_ns: int | None = None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """One step of a plan. `position` and `length` are the bytes it changes: a range of the file (write, zero) or all of it.

    `attributes` are those of the file afterwards: always there for create and replace, for write only if they change.
    `holes` are ranges [begin, end) of the file that have no blocks on the disk afterwards.
    """

    kind: ActionKind
    path: str
    position: int
    length: int
    reason: str
    expect: Expected
    code: str | None = None
    contents: Contents | None = None
    attributes: Attributes | None = None
    holes: tuple[tuple[int, int], ...] = ()
    directories: tuple[Directory, ...] = ()

    @property
    def in_place(self) -> bool:
        """Whether it changes bytes of a file that stays where it is."""
        return self.kind in (ActionKind.WRITE, ActionKind.ZERO)


class Doubt(StrEnum):
    """The uncertainty about a lost message that is named.

    POSITION: it is lost, and so is what began at its physical offset, which may have been another message. EXISTENCE: there may have been
    no message at all.
    """

    POSITION = "position"
    EXISTENCE = "existence"


@dataclass(frozen=True, slots=True)
class LostMessage:
    """A lost message, as far as it is known: physical offset and size in bytes, and why it cannot be kept."""

    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    physical_offset: int | None = None
    size: int | None = None
    why: str = ""
    doubt: Doubt | None = None


class Origin(StrEnum):
    """The source of an entry of a configuration file that could not be read."""

    FILE = "file"
    BACKUP = "backup"
    UNFINISHED = "unfinished write"
    QUEUES = "queues"
    LOG = "log"
    CONFIGURATION = "other configuration"
    COPY = "other copy"
    SEGMENTS = "segments of tiered storage"
    INDEX = "index of tiered storage"


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """An entry of a configuration file that is written from what is left: its key, the origin, in words what it is taken from.

    `guess`: some of its values are defaults, because nothing in the store shows them.
    """

    file: str
    entry: str
    origin: Origin
    why: str
    guess: bool = False


@dataclass(frozen=True, slots=True)
class TakenRange:
    """The bytes [begin, end) of the log, physical offsets, that are taken from another copy, from its file `file`."""

    file: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class FileStamp:
    """Length in bytes and modification time in nanoseconds of one file, which show whether it was changed."""

    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class After:
    """The results of a verification and a second plan for the store that a plan leads to, obtained before anything is written.

    `errors`: number of findings of severity error of each code. `left`: number of actions of the second plan, None if it was not made.
    """

    errors: Mapping[str, int] = field(default_factory=dict)
    left: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan. `after`: results for the planned store, None if they were not possible. `files` are all files of the store when it was read;
    `settings` are those of broker.conf that it was read with; `undoes` is the transaction that this plan undoes; `taken` are the bytes of
    the log that come from other copies."""

    command: str
    store: str
    broker_version: str
    settings: Mapping[str, str] = field(default_factory=dict)
    undoes: str | None = None
    actions: tuple[Action, ...] = ()
    lost: tuple[LostMessage, ...] = ()
    configuration: tuple[ConfigEntry, ...] = ()
    notes: tuple[str, ...] = ()
    after: After | None = None
    files: Mapping[str, FileStamp] = field(default_factory=dict)
    taken: tuple[TakenRange, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.actions
