"""The procedure of every writing command: lock, plan, show, confirm, apply, verify, and a second plan that must be empty."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from rmqstore.errors import RefusedError
from rmqstore.findings import Severity
from rmqstore.jsonschema import SCHEMA
from rmqstore.reading.progress import Advance, silent
from rmqstore.repair.derived.requests import Planning, Rebuilder
from rmqstore.repair.files import beneath, lock, rights
from rmqstore.repair.files.writer import Writer
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.plan.check import check_kept, check_plan, check_transaction
from rmqstore.repair.plan.codec import contents_directory, plan_id, read_plan
from rmqstore.repair.plan.keep import keep_plan
from rmqstore.repair.plan.model import Action, After, Plan
from rmqstore.repair.plan.paths import Places
from rmqstore.repair.plan.planned import NoRoomError, planned_store
from rmqstore.repair.plan.staging import Staging
from rmqstore.repair.transaction import apply, history
from rmqstore.repair.transaction.folder import State, Transaction, begin, find, refusal, remove_remains, transaction_of, unfinished
from rmqstore.repair.transaction.perform import ForeignChangeError
from rmqstore.repair.transaction.undo import plan_undo
from rmqstore.store.kinds.recognise import require_directory
from rmqstore.store.root import Store

Planner = Callable[[Planning, Store], None]
"""A function that reads a store and passes changes to the builder; new files of any size are made in the staging area."""


def unseen(store: Store) -> AbstractContextManager[Advance]:
    """Return a progress that is not shown."""
    return nullcontext(silent)


class Verify(Protocol):
    """A verification that counts the errors of a store by code."""

    def __call__(self, store: Store, *, crashed: bool | None = None) -> Mapping[str, int]:
        """Count the errors. `crashed`: whether the broker counts as killed, None: determined from `abort`. Raises UnreadableError."""


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """The request of a writing command: its name, a way to open the store again, and the planner.

    `second`: a planner that finds more cheaply than `planner` whether anything is left to do, if there is one.
    `rebuilder` builds queues and index in other processes, which can only read a store on the disk. `progress` shows that of a planner.
    `trial`: the store that the plan leads to is verified and planned for before anything is written; a copy needs no trial.
    """

    command: str
    broker_version: str
    open_store: Callable[[], Store]
    planner: Planner
    second: Planner | None = None
    rebuilder: Rebuilder | None = None
    progress: Callable[[Store], AbstractContextManager[Advance]] = unseen
    trial: bool = True


class Dialog(Protocol):
    """User interaction during a repair."""

    def show(self, plan: Plan) -> None:
        """Show the plan."""

    def confirm(self, plan: Plan) -> bool:
        """Return whether to apply the plan."""

    def started(self, transaction: Transaction, plan: Plan) -> None:
        """Report that the store changes from now on."""

    def advance(self, action: Action) -> None:
        """Report that an action is done."""


@dataclass(frozen=True, slots=True)
class Unattended:
    """A dialog without a user, which shows nothing; it agrees to each plan or to none."""

    agrees: bool

    def show(self, plan: Plan) -> None:
        """Show nothing."""

    def confirm(self, plan: Plan) -> bool:
        """Return whether it agrees."""
        return self.agrees

    def started(self, transaction: Transaction, plan: Plan) -> None:
        """Report nothing."""

    def advance(self, action: Action) -> None:
        """Report nothing."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a command: `errors` of the verification afterwards by code, `left` the number of actions of a second plan.

    Without a transaction nothing was changed. None: not determined.
    """

    plan: Plan
    transaction: Transaction | None = None
    errors: Mapping[str, int] | None = None
    left: int | None = None
    kept_in: Path | None = None

    @property
    def complete(self) -> bool:
        """Whether nothing is left to do."""
        return not self.errors and not self.left

    def as_json(self) -> dict[str, Any]:
        """Return the result as the object that `--format json` prints."""
        return {
            "type": "transaction",
            "schema": SCHEMA,
            "id": None if self.transaction is None else self.transaction.id,
            "state": None if self.transaction is None else str(self.transaction.state),
            "command": self.plan.command,
            "undoes": self.plan.undoes,
            "actions": len(self.plan.actions),
            "lost": len(self.plan.lost),
            "errors": self.errors,
            "second_plan_actions": self.left,
            "plan_file": None if self.kept_in is None else str(self.kept_in),
        }


def verification_errors(store: Store, *, crashed: bool | None = None) -> Mapping[str, int]:
    """Count errors by the engine of `rmqstore verify`; `crashed`: whether the broker counts as killed, None: determined from `abort`."""
    from rmqstore.verify.context import Options
    from rmqstore.verify.engine import Verification

    return Counter(finding.code for finding in Verification(store, Options(crashed=crashed)).run() if finding.severity is Severity.ERROR)


def show(wish: RepairRequest, dialog: Dialog, plan_out: Path | None = None, *, verify: Verify = verification_errors) -> Result:
    """Plan and show; the store stays as it is. `plan_out` keeps the plan in a file, with its contents next to it.

    Raises RefusedError, UnreadableError, OSError.
    """
    store = wish.open_store()
    # A copy leaves out the holes of its source, and some systems report bytes that are not on the disk yet as holes.
    with _at_work(store), lock.locked_for_reading(store), Staging.temporary(forced=plan_out is not None) as staging:
        _refuse_unfinished(store.root)
        plan = _verified(wish, store, staging, _plan(wish, store, staging), verify)
        dialog.show(plan)
        kept_in = None if plan_out is None else keep_plan(plan, staging, plan_out)
    return Result(plan, kept_in=kept_in)


def execute(wish: RepairRequest, dialog: Dialog, *, verify: Verify = verification_errors, writer: Writer | None = None) -> Result:
    """Run the whole procedure. Raises RefusedError, UnreadableError, WriteFailedError, KeyboardInterrupt."""
    store = wish.open_store()
    writer = writer or Writer()
    with _at_work(store), lock.locked(store, writer):
        _refuse_unfinished(store.root)
        remove_remains(store.root, writer)
        with _fresh(store.root, writer) as new:
            staging = Staging(new.transaction.staged, writer)
            try:
                plan = _verified(wish, store, staging, _plan(wish, store, staging), verify)
            finally:
                staging.discard_open()
            dialog.show(plan)
            if plan.empty:
                return Result(plan, errors=verify(_opened_again(wish)), left=0)
            _require_consent(plan, dialog)
            apply.put_plan(new.transaction, plan, writer)
            new.keep = True
        _apply(new.transaction, store, dialog, writer)
        after = _opened_again(wish)
        errors = verify(after)
        if not wish.trial:
            return Result(plan, new.transaction, errors)
        if plan.after is not None and plan.after.left is not None and plan.after.errors == errors:
            return Result(plan, new.transaction, errors, plan.after.left)
        return Result(plan, new.transaction, errors, _left(wish, after))


def apply_file(path: Path, dialog: Dialog, *, verify: Verify = verification_errors, writer: Writer | None = None) -> Result:
    """Apply a kept plan, or continue the transaction that it began; do nothing if it is done already. Raises as `execute` does."""
    transaction = transaction_of(path)
    plan = read_plan(path) if transaction is None else transaction.plan
    store = open_as_planned(plan, None if transaction is None else transaction.root)
    writer = writer or Writer()
    with _at_work(store), lock.locked(store, writer):
        transaction = transaction or history.begun(store.root, plan_id(plan))
        if unfinished(store.root) not in (None, transaction):
            _refuse_unfinished(store.root)
        dialog.show(plan)
        if plan.empty:
            return Result(plan)
        if transaction is None:
            check_plan(plan, Places(store))
            _require_consent(plan, dialog)
            remove_remains(store.root, writer)
            with _fresh(store.root, writer) as new:
                apply.put_plan(new.transaction, plan, writer, contents_directory(path))
                new.keep = True
            transaction = new.transaction
        elif transaction.state is not State.APPLIED:
            _require_consent(plan, dialog)
        _apply(transaction, store, dialog, writer)
        return Result(plan, transaction, None if plan.undoes else verify(open_as_planned(plan, store.root)))


def undo(
    root: Path,
    name: str | None,
    dialog: Dialog,
    *,
    writer: Writer | None = None,
    dry_run: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Result:
    """Undo a transaction, or, without a name, continue an undo that was stopped. Raises as `execute` does.

    An undo that was stopped is finished before it is undone itself. If changes by another process keep it from being finished, it is
    planned again from what is there. `settings` override those of the transaction.
    """
    require_directory(root)
    writer = writer or Writer()
    store = open_as_planned(history.to_undo(root, name).plan, root, settings)
    with _at_work(store), lock.locked_for_reading(store) if dry_run else lock.locked(store, writer):
        target = history.to_undo(root, name)
        if dry_run:
            plan = target.plan if _is_stopped_undo(target) else _plan_undo(target, store)
            dialog.show(plan)
            return Result(plan)
        if not _is_stopped_undo(target):
            return _take_back(target, _plan_undo(target, store), dialog, writer)
        if name is not None:
            _continue(target, store, dialog, writer)
            return _take_back(target, _plan_undo(target, store), dialog, writer)
        try:
            return _continue(target, store, dialog, writer)
        except ForeignChangeError:
            undone = find(root, target.plan.undoes or "")
            return _take_back(undone, _plan_undo(undone, store, force=True), dialog, writer)


def open_as_planned(plan: Plan, root: Path | None = None, settings: Mapping[str, str] | None = None) -> Store:
    """Open the store of a plan with the settings of the plan, overridden by `settings`. Raises UnreadableError, NotAStoreError."""
    return Store.open(plan.store if root is None else root, settings={**plan.settings, **(settings or {})})


@contextmanager
def _at_work(store: Store) -> Iterator[None]:
    """Give access to the files of a store while a command works on it: its directories are opened once, no link below them is
    followed, and root works with the rights of the owner. Raises RefusedError."""
    places = Places(store)
    places.refuse_unnamed_links()
    with beneath.pinned(places.tops), rights.of_owner(places):
        yield


def _refuse_unfinished(root: Path) -> None:
    """Raise RefusedError if a transaction has to be finished or undone before anything else may change the store."""
    stopped = unfinished(root)
    if stopped is not None:
        check_transaction(stopped, Places(open_as_planned(stopped.plan, root)))
        check_kept(stopped)
        raise refusal(stopped)


def _opened_again(wish: RepairRequest) -> Store:
    with rights.of_starter():  # the broker.conf is a file of the operator
        return wish.open_store()


def _plan(wish: RepairRequest, store: Store, staging: Staging) -> Plan:
    builder = PlanBuilder(store, staging, wish.command, wish.broker_version)
    with wish.progress(store) as advance:
        wish.planner(Planning(builder, advance, wish.rebuilder), store)
    return builder.build()


def _left(wish: RepairRequest, store: Store) -> int:
    """Return how many actions a second plan has."""
    with Staging.temporary() as staging:
        return len(_plan(replace(wish, planner=wish.second or wish.planner), store, staging).actions)


def _verified(wish: RepairRequest, store: Store, staging: Staging, plan: Plan, verify: Verify) -> Plan:
    """Return a plan with the results of a verification and of a second plan for the store that it leads to."""
    if plan.empty or not wish.trial:
        return plan
    try:
        with planned_store(plan, store, staging) as planned:
            errors = verify(planned)
            if errors:
                _refuse_worse(verify(store, crashed=planned.abort_present), errors)
            after = After(errors, None if wish.rebuilder is not None else _left(wish, planned))
    except NoRoomError as error:
        return replace(plan, notes=(*plan.notes, f"The planned store was not verified: {error.message} {error.hint}"))
    return replace(plan, after=after)


def _refuse_worse(present: Mapping[str, int], planned: Mapping[str, int]) -> None:
    """Raise RefusedError if a plan adds errors to a store, some of them to its log; both are judged as if they ended in the same way.

    The number of errors in derived files is no measure: a missing queue is one error, a queue that was built for another type of topic
    has one for each entry.
    """
    if sum(planned.values()) > sum(present.values()) and _of_log(planned) > _of_log(present):
        raise RefusedError(
            f"The plan would make the store worse: {listed(planned)} after it, {listed(present) or 'no errors'} now. Nothing was changed.",
            "Keep the store as it is, and report the output of `rmqstore verify`.",
        )


def _of_log(errors: Mapping[str, int]) -> int:
    return sum(count for code, count in errors.items() if code.startswith("RMQ-CL-"))


def listed(errors: Mapping[str, int]) -> str:
    """Return the counts of errors as text."""
    return ", ".join(f"{count} x {code}" for code, count in sorted(errors.items()))


def _plan_undo(target: Transaction, store: Store, *, force: bool = False) -> Plan:
    return replace(plan_undo(target, Places(store), force=force), settings=dict(store.config.given))


def _is_stopped_undo(transaction: Transaction) -> bool:
    return transaction.plan.undoes is not None and transaction.state is State.APPLYING


def _take_back(target: Transaction, plan: Plan, dialog: Dialog, writer: Writer) -> Result:
    store = open_as_planned(plan, target.root)
    dialog.show(plan)
    _require_consent(plan, dialog)
    with _fresh(target.root, writer) as new:
        apply.put_plan(new.transaction, plan, writer)
        new.keep = True
    _apply(new.transaction, store, dialog, writer)
    return Result(plan, new.transaction)


def _continue(transaction: Transaction, store: Store, dialog: Dialog, writer: Writer) -> Result:
    dialog.show(transaction.plan)
    _require_consent(transaction.plan, dialog)
    _apply(transaction, store, dialog, writer)
    return Result(transaction.plan, transaction)


def _require_consent(plan: Plan, dialog: Dialog) -> None:
    if not dialog.confirm(plan):
        raise RefusedError("Nothing was changed: the plan was not confirmed.", "Add --yes to confirm it without being asked.")


def _apply(transaction: Transaction, store: Store, dialog: Dialog, writer: Writer) -> None:
    dialog.started(transaction, transaction.plan)
    with _stoppable() as stop:
        apply.apply(transaction, Places(store), writer, advance=dialog.advance, stop=stop)


@dataclass
class _New:
    transaction: Transaction
    keep: bool = field(default=False)


@contextmanager
def _fresh(root: Path, writer: Writer) -> Iterator[_New]:
    """Make the folder of a new transaction, which is removed again unless its plan is kept in it."""
    new = _New(begin(root, writer))
    try:
        yield new
    finally:
        if not new.keep:
            with suppress(OSError):  # the disk fails; the next writing command removes the remains
                new.transaction.discard(writer)


@contextmanager
def _stoppable() -> Iterator[Callable[[], bool]]:
    """Make Ctrl-C wait for the end of an action; yield a function that returns whether it was pressed."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return

    def remember(number: int, frame: FrameType | None) -> None:
        pressed.set()

    kept = signal.signal(signal.SIGINT, remember)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, kept)
