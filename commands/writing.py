"""Options of all writing commands, and the dialog that shows a plan and asks for confirmation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqstore.commands.common import WORDS, View, broker_version_option, on_interrupt, output_options, store_options
from rmqstore.commands.engines import rebuild_engine_options, rebuilder_of
from rmqstore.reading.progress import Advance
from rmqstore.shellwords import command
from rmqstore.wording import counted

if TYPE_CHECKING:
    from rmqstore.pipeline.engine import EngineOptions
    from rmqstore.pipeline.job import StoreAt
    from rmqstore.repair.plan.model import Action, After, ConfigEntry, Plan
    from rmqstore.repair.procedure import Dialog, Planner, Result, Verify
    from rmqstore.repair.transaction.folder import Transaction
    from rmqstore.store.root import Store

EXIT_ERRORS_REMAIN = 1
_SHOWN = 40

yes_option = click.option("--yes", is_flag=True, help="Apply the plan without asking.")
"""--yes → `yes: bool`."""

dry_run_option = click.option("--dry-run", is_flag=True, help="Show the plan only; nothing is written.")
"""--dry-run → `dry_run: bool`."""


plan_out_option = click.option(
    "--plan-out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Save the plan in FILE (and FILE.contents/) for `rmqstore apply`; the store stays unchanged.",
)
"""--plan-out → `plan_out: Path | None`."""


def writing_options(*, engine: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--broker-version, --broker-conf, --set, the options of output, --dry-run, --yes and --plan-out, with `engine` those of it as well.

    They and STORE → `runner: RepairRunner`.
    """

    def decorate(decorated: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(decorated)
        def with_runner(
            store: Path,
            broker_version: str,
            broker_conf: Path | None,
            settings: Mapping[str, str],
            view: View,
            dry_run: bool,
            yes: bool,
            plan_out: Path | None,
            wish: EngineOptions | None = None,
            **options: Any,
        ) -> Any:
            from rmqstore.pipeline.job import StoreAt

            at = StoreAt.of(store, broker_conf, settings)
            runner = RepairRunner(view, at, at.open(), broker_version, wish, dry_run=dry_run, yes=yes, plan_out=plan_out)
            return decorated(runner=runner, **options)

        general = store_options(output_options(dry_run_option(yes_option(plan_out_option(with_runner)))))
        return broker_version_option(rebuild_engine_options(general) if engine else general)

    return decorate


class RepairRunner:
    """Execution of a writing command: only show the plan, save it, or apply it.

    The engine that rebuilds queues and index is started at once, so that slow imports happen meanwhile.
    """

    def __init__(
        self,
        view: View,
        at: StoreAt,
        store: Store,
        broker_version: str,
        wish: EngineOptions | None,
        *,
        dry_run: bool,
        yes: bool,
        plan_out: Path | None,
        dialog: Dialog | None = None,
    ) -> None:
        self._view = view
        self._at = at
        self._store = store
        self._broker_version = broker_version
        self._rebuilder = None if wish is None else rebuilder_of(wish, store, at)
        self._show_only = dry_run or plan_out is not None
        self._plan_out = plan_out
        self._dialog = dialog or PlanDialog(view, yes)

    @cached_property
    def release(self) -> str:
        """The release of the broker."""
        from rmqstore.prediction.release import choose_release
        from rmqstore.scan.compilation import compile_kernels

        compile_kernels(quiet=self._view.quiet)
        return choose_release(self._store, self._broker_version).release

    def __call__(self, name: str, planner: Planner, *, passes: int, second: Planner | None = None) -> None:
        """Run the procedure and print its result; end the command with status 1 if errors remain."""
        result = self.run(name, planner, passes=passes, second=second)
        tell(self._view, result, self._next(result) if self._view.format == "table" else "")

    def _next(self, result: Result) -> str:
        """Return the next step: the command that applies what was shown, or that of a diagnosis of the repaired store."""
        if result.kept_in is not None:
            return command("rmqstore", "apply", result.kept_in)
        if result.transaction is None and not result.plan.empty:
            return without_dry_run()
        from rmqstore.doctor.cure import after_repair
        from rmqstore.doctor.diagnosis import diagnose
        from rmqstore.doctor.nextsteps import Commands

        asked = "" if self._broker_version == "auto" else self._broker_version
        commands = Commands(self._store.root, self._at.options, asked)
        diagnosis = diagnose(self._at.open(), self._broker_version, commands)
        return after_repair(diagnosis, commands, complete=result.complete, whole=result.plan.command == "recover")

    def run(self, name: str, planner: Planner, *, passes: int, second: Planner | None = None, verify: Verify | None = None) -> Result:
        """Run the procedure. `passes`: how often the planner reads the log; `verify`: the verification of a store, default that of it."""
        from rmqstore.repair import procedure

        @contextmanager
        def progress(store: Store) -> Iterator[Advance]:
            with self._view.progress("plan", passes * store.message_log.length or None) as bar:
                yield bar.advance

        wish = procedure.RepairRequest(name, self.release, self._at.open, planner, second, self._rebuilder, progress)
        verify = verify or procedure.verification_errors
        if self._show_only:
            return procedure.show(wish, self._dialog, self._plan_out, verify=verify)
        return procedure.execute(wish, self._dialog, verify=verify)


class PlanDialog:
    """Dialog that shows plans in the chosen format and asks on the terminal; without one, only `--yes` means yes."""

    def __init__(self, view: View, yes: bool) -> None:
        self._view = view
        self._yes = yes
        self._done = 0

    def show(self, plan: Plan) -> None:
        """Print the plan: text and tables, or the object of a plan file without the list of files."""
        if self._view.format == "table":
            # The question is about the plan, so it is shown in any case.
            output = self._view.output(data=not self._yes)
            output.verdict(headline(plan))
            output.object(listed_plan(plan))
        else:
            from rmqstore.repair.plan.codec import shown_object

            self._view.output().object(shown_object(plan))

    def confirm(self, plan: Plan) -> bool:
        """Ask, unless `--yes` was given."""
        return self._yes or (sys.stdin.isatty() and click.confirm("Do this now?", err=True))

    def started(self, transaction: Transaction, plan: Plan) -> None:
        """From now on, let the message of an interruption say how to continue."""
        from rmqstore.repair.transaction.folder import resume_commands

        continued, undone = resume_commands(transaction)
        on_interrupt(lambda: f"{self._done} of {len(plan.actions)} actions done; continue with `{continued}`, undo with `{undone}`")

    def advance(self, action: Action) -> None:
        """Count an action."""
        self._done += 1


def tell(view: View, result: Result, step: str) -> None:
    """Print the result as text or JSON, and the next step; end the command with status 1 if errors remain."""
    output = view.output()
    output.object(result.as_json() if view.format != "table" else outcome(result))
    output.next(step)
    if not result.complete:
        click.get_current_context().exit(EXIT_ERRORS_REMAIN)


def without_dry_run() -> str:
    """Return the command line without the option that only shows the plan."""
    words = click.get_current_context().meta[WORDS]
    return command("rmqstore", *(word for word in words if word != "--dry-run"))


def doctor_of(plan: Plan) -> str:
    """Return `rmqstore doctor` for the store of a plan, with its settings."""
    settings = (word for key, value in plan.settings.items() for word in ("--set", f"{key}={value}"))
    return command("rmqstore", "doctor", plan.store, *settings)


def headline(plan: Plan) -> str:
    """Return a plan in one line."""
    if plan.empty:
        return f"NOTHING TO CHANGE: {plan.command} of {plan.store}"
    lost = f"{counted(len(plan.lost), 'message')} lost" if plan.lost else "no message lost"
    return f"PLAN: {counted(len(plan.actions), 'change')}, {lost}"


def listed_plan(plan: Plan) -> dict[str, Any]:
    """Return a plan as text and tables."""
    from rmqstore.render.strip import strip

    screen: dict[str, Any] = {"plan": plan.command, "store": plan.store, "changes": f"{len(plan.actions)} actions"}
    if plan.lost:
        screen["messages lost"] = len(plan.lost)
    changes = list(_log_changes(plan))
    if changes:
        screen["log"] = strip([*_log_files(plan), *changes])
    if plan.actions:
        screen["actions"] = _rows([_action(action) for action in plan.actions], "what")
    if plan.taken:
        taken = [{"physical offset": one.begin, "bytes": one.end - one.begin, "from": one.file} for one in plan.taken]
        screen["taken"] = _rows(taken, "from")
    if plan.lost:
        screen["lost"] = _rows(
            [
                {
                    "topic": lost.topic,
                    "queue": lost.queue_id,
                    "offset": lost.queue_offset,
                    "physical offset": lost.physical_offset,
                    "bytes": lost.size,
                    "why": lost.why,
                }
                for lost in plan.lost
            ],
            "topic",
        )
    if plan.configuration:
        screen["configuration"] = _rows([_entry(entry) for entry in plan.configuration], "file")
    if plan.after is not None:
        screen["afterwards"] = _afterwards(plan.after)
    if plan.notes:
        screen["notes"] = [{"note": note} for note in plan.notes]
    return screen


def _log_files(plan: Plan) -> Iterator[tuple[int, int, str]]:
    """Yield the files of the commit log as ranges for a strip."""
    for path, stamp in plan.files.items():
        start = _log_start(path)
        if start is not None:
            yield start, start + stamp.size, "unchanged"


def _log_changes(plan: Plan) -> Iterator[tuple[int, int, str]]:
    """Yield what a plan does to the commit log as ranges for a strip."""
    states = {"write": "written", "zero": "zeroed", "create": "written", "replace": "written", "quarantine": "moved out"}
    for action in plan.actions:
        start = _log_start(action.path)
        if start is not None:
            yield start + action.position, start + action.position + action.length, states[action.kind]


def _log_start(path: str) -> int | None:
    """Return the physical offset at which a file of the commit log begins, None for other files; other log directories are absolute."""
    from rmqstore.store.mapped import parse_offset_name

    directory, _, name = path.rpartition("/")
    return parse_offset_name(name) if directory == "commitlog" or path.startswith("/") else None


def _afterwards(after: After) -> str:
    """Return the verification of the planned store as text."""
    from rmqstore.repair.procedure import listed

    found = f"errors remain: {listed(after.errors)}" if after.errors else "no errors"
    if after.left is None:
        return found
    return f"{found}; a second plan has {after.left} actions" if after.left else f"{found}, and nothing left to do"


def _action(action: Action) -> dict[str, Any]:
    return {
        "what": str(action.kind),
        "file": action.path,
        "from byte": action.position if action.in_place else None,
        "bytes": action.length,
        "code": action.code,
        "why": action.reason,
    }


def _entry(entry: ConfigEntry) -> dict[str, Any]:
    guess = "yes" if entry.guess else "no"
    return {"file": entry.file, "entry": entry.entry, "origin": str(entry.origin), "guess": guess, "taken from": entry.why}


def _rows(rows: list[dict[str, Any]], column: str) -> list[dict[str, Any]]:
    """Return the rows, or the first of them and how many more there are."""
    more = len(rows) - _SHOWN
    return rows if more <= 0 else [*rows[:_SHOWN], {name: f"… {more} more" if name == column else None for name in rows[0]}]


def outcome(result: Result) -> dict[str, Any]:
    """Return the result of a plan as text."""
    screen: dict[str, Any] = {}
    if result.transaction is not None:
        screen["transaction"] = f"{result.transaction.id}: {result.transaction.state}"
        screen["undo"] = command("rmqstore", "undo", result.transaction.root, result.transaction.id)
    elif result.kept_in is not None:
        screen["plan"] = f"saved in {result.kept_in}; nothing was changed"
    else:
        screen["outcome"] = "nothing to do" if result.plan.empty else "nothing was changed"
    if result.errors is not None:
        from rmqstore.repair.procedure import listed

        screen["verification"] = f"errors remain: {listed(result.errors)}" if result.errors else "no errors"
    if result.left:
        screen["second plan"] = f"{result.left} actions are left; run the command again"
    return screen
