"""Errors that reach a person: one sentence what happened, one sentence what to do, and the exit status."""

from __future__ import annotations

from typing import ClassVar


class RmqstoreError(Exception):
    """Base of every error a command ends with. `message` says what happened, `hint` what to do."""

    exit_status: ClassVar[int] = 4

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[type[RmqstoreError], tuple[str, str]]:
        """Errors travel from worker processes as they are."""
        return type(self), (self.message, self.hint)


class UsageError(RmqstoreError):
    """The command line asks for something that does not fit together."""

    exit_status: ClassVar[int] = 2


class RefusedError(RmqstoreError):
    """The tool declines: the store is in use, has changed since it was planned for, or the person said no."""

    exit_status: ClassVar[int] = 3


class UnreadableError(RmqstoreError):
    """A path does not exist, may not be read, or the device failed."""


class NotAStoreError(RmqstoreError):
    """The path exists but nothing in it looks like a RocketMQ store or one of its files."""


class StoreChangedError(RmqstoreError):
    """A file shrank or vanished while it was being read."""
