"""Check of a journal against its plan: it may name files of its own transaction only, and give nothing that the plan did not find.

A journal is a file of the store, and the owner of the store can write one. Its contents are used only if this program could have
written them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from rmqstore.repair.plan.attributes import MODE_OF_FILES
from rmqstore.repair.plan.model import Action, Attributes, Plan
from rmqstore.repair.transaction.journal import Before, Story

MODE_OF_DIRECTORIES = 0o3777
"""Permission bits that a directory of a store may have: also those that pass on its group and protect names."""
_BLOCK = 4096


def problem_of_journal(plan: Plan, story: Story) -> str | None:
    """Return why a journal cannot be that of the plan, in words; None if it can."""
    return next(_problems(plan, story), None)


def undo_name(number: int) -> str:
    """Return the file in the folder of a transaction with the old bytes of the range of an action."""
    return f"undo/{number:06d}"


def directories_above(action: Action) -> tuple[str, ...]:
    """Return the directories above the file of an action that the action may touch, as plans spell them."""
    path = PurePosixPath(action.path)
    return tuple(parent.as_posix() for parent in (path.parents[:1] if path.is_absolute() else path.parents))


def problems_of_attributes(attributes: Attributes, bits: int) -> Iterator[str]:
    """Yield what is impossible in attributes whose mode may have `bits` only."""
    if attributes.uid < 0 or attributes.gid < 0:
        yield "a negative owner"
    if attributes.mode & ~bits:
        yield f"mode {attributes.mode:o}, of which only {attributes.mode & bits:o} may be given"


def _problems(plan: Plan, story: Story) -> Iterator[str]:
    numbers = range(len(plan.actions))
    if not story.before.keys() | story.copying <= set(numbers):
        yield "it names actions that the plan does not have"
    if (story.prepared or story.applied) and len(story.before) < len(numbers):
        yield "actions have no undo record"
    if story.applied and not story.prepared:
        yield "it ends without a beginning"
    for number, before in story.before.items():
        for problem in _problems_of_record(number, before, plan.actions[number]):
            yield f"undo record of action {number + 1}: {problem}"


def _problems_of_record(number: int, before: Before, action: Action) -> Iterator[str]:
    if before.undo != (undo_name(number) if action.in_place else None):
        yield "it names a file of another action"
    found = before.attributes
    if (before.size, found and found.mtime_ns) != (action.expect.size, action.expect.mtime_ns) or (found is None) != (before.size is None):
        yield "it describes another file than the plan"
    if before.linked and not action.in_place:
        yield "a copy of a file that does not change"
    if before.digest is not None and (action.in_place or found is None):
        yield "a digest of a file that is not moved"
    if found is not None:
        yield from problems_of_attributes(found, MODE_OF_FILES)
    if any(not 0 <= begin < end <= -(-(before.size or 0) // _BLOCK) * _BLOCK for begin, end in before.holes):
        yield "impossible holes"
    above = directories_above(action)
    for directory in before.directories:
        if directory.path not in above:
            yield "a directory that is not above the file"
        if directory.attributes is not None:
            yield from problems_of_attributes(directory.attributes, MODE_OF_DIRECTORIES)
