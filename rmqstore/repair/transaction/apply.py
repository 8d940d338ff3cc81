"""Application of a plan: prepare, do the actions one by one, and record them. When stopped, it can be continued or undone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from rmqstore.errors import RmqstoreError, UnreadableError
from rmqstore.repair.files import beneath, copies, rights
from rmqstore.repair.files.writer import Writer
from rmqstore.repair.plan import codec, fingerprint
from rmqstore.repair.plan.check import check_kept, check_transaction, require_contents, require_file
from rmqstore.repair.plan.model import Action, Plan
from rmqstore.repair.plan.paths import Places
from rmqstore.repair.transaction.folder import State, Transaction, resume_commands
from rmqstore.repair.transaction.journal import Journal
from rmqstore.repair.transaction.perform import ForeignChangeError, Performer
from rmqstore.repair.transaction.prepare import prepare
from rmqstore.repair.transaction.watch import Watch

_UNCHANGED = "Nothing of the store was changed."
_TRY_AGAIN = "Free space or fix the disk, then try again."

Advance = Callable[[Action], None]


class WriteFailedError(RmqstoreError):
    """A disk failed or is full while a store is being changed."""


def put_plan(transaction: Transaction, plan: Plan, writer: Writer, contents: Path | None = None) -> None:
    """Put a plan into the folder of a new transaction; from then on the transaction can be applied.

    `contents` is the directory of the contents, which are copied; None if they are in their place already.
    Raises RefusedError (contents are missing or changed), WriteFailedError.
    """
    try:
        if contents is not None:
            _copy_contents(transaction, plan, contents, writer)
        if beneath.is_directory(transaction.staged):
            writer.fsync_directory(transaction.staged)
        part = transaction.plan_path.with_suffix(".part")
        data = codec.encode(plan)
        with writer.create(part) as descriptor:
            writer.write(descriptor, part, 0, data)
            writer.fsync(descriptor, part)
        writer.rename(part, transaction.plan_path)
        writer.fsync_directory(transaction.directory)
    except OSError as error:
        raise _failed(error, _UNCHANGED, _TRY_AGAIN) from error


def apply(
    transaction: Transaction,
    places: Places,
    writer: Writer,
    *,
    advance: Advance = lambda action: None,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Apply the plan of a transaction, from the beginning or from where it was stopped. The lock of the store must be held.

    `advance` is called with every action that is done; `stop` is called between them. Raises RefusedError (nothing was changed),
    ForeignChangeError, WriteFailedError, KeyboardInterrupt (`stop` returned True).
    """
    check_transaction(transaction, places)
    try:
        state = transaction.state
        if state is State.PLANNED:
            prepare(transaction, places, writer)
        elif state is State.APPLYING:
            check_kept(transaction)
        if state is not State.APPLIED:
            _perform(transaction, places, writer, advance, stop)
    except (OSError, UnreadableError) as error:
        if transaction.state is State.PLANNED:
            raise _failed(error, _UNCHANGED, _TRY_AGAIN) from error
        continued, undone = resume_commands(transaction)
        hint = f"Free space or fix the disk, then continue with `{continued}`, or undo it with `{undone}`."
        raise _failed(error, f"Transaction {transaction.id} was not finished.", hint) from error


def _perform(transaction: Transaction, places: Places, writer: Writer, advance: Advance, stop: Callable[[], bool]) -> None:
    plan = transaction.plan
    watch = Watch(places, plan.files, plan.actions)
    story = transaction.story
    with Journal.open(transaction.journal_path, writer, story.length) as journal:
        performer = Performer(transaction, places, writer, journal, story)
        phase = None
        for number, action in enumerate(plan.actions):
            if stop():
                raise KeyboardInterrupt
            if phase not in (None, places.phase(action.path)):
                performer.sync()
            phase = places.phase(action.path)
            _refuse_foreign(transaction, watch.change())
            performer.perform(number, action)
            watch.done(action)
            advance(action)
        performer.sync()
        _refuse_foreign(transaction, watch.look())
        journal.applied(fingerprint.take(places))


def _refuse_foreign(transaction: Transaction, change: str | None) -> None:
    if change is not None:
        raise ForeignChangeError(transaction, change)


def _copy_contents(transaction: Transaction, plan: Plan, contents: Path, writer: Writer) -> None:
    for action in plan.actions:
        wanted = action.contents
        if wanted is None or wanted.file is None:
            continue
        source, target = contents / wanted.file, transaction.staged / wanted.file
        if not beneath.is_directory(transaction.staged):
            writer.mkdir(transaction.staged)
        with ExitStack() as stack:
            with rights.of_starter():  # the contents are files of the operator
                require_file(source)
                read = stack.enter_context(beneath.reading(source))
            require_contents(wanted, read, source)
            if not beneath.exists(target):
                copies.copy_descriptor(writer, read, source, 0, wanted.length, target)


def _failed(error: OSError | UnreadableError, state: str, hint: str) -> WriteFailedError:
    """Return an error of the system, with what it means for the store."""
    if isinstance(error, UnreadableError):
        return WriteFailedError(f"{error.message} {state}", hint)
    return WriteFailedError(f"{error.filename or 'the disk'}: {error.strerror}. {state}", hint)
