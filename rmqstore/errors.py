"""Errors that end a command: one sentence what happened, one sentence what to do, and the exit status."""

from __future__ import annotations

from typing import ClassVar


class RmqstoreError(Exception):
    """Base of the errors that end a command. `message` says what happened, `hint` what to do."""

    exit_status: ClassVar[int] = 4

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.add_note(hint)  # tracebacks show it, where the package is used without its commands
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[type[RmqstoreError], tuple[str, str]]:
        """Return the arguments for unpickling, so that errors of worker processes keep their hint."""
        return type(self), (self.message, self.hint)


class UsageError(RmqstoreError):
    """The command line combines arguments that do not fit together."""

    exit_status: ClassVar[int] = 2


class RefusedError(RmqstoreError):
    """The command is refused: the store is in use, has changed since the plan was made, or the user declined."""

    exit_status: ClassVar[int] = 3


class UnreadableError(RmqstoreError):
    """A path does not exist, its permissions deny reading, or the device failed."""


class GoneError(UnreadableError):
    """A path does not exist, or no longer exists."""


class NotAStoreError(RmqstoreError):
    """The path exists but holds neither a RocketMQ store nor one of its files."""


class StoreChangedError(RmqstoreError):
    """A file shrank or vanished while it was being read."""
