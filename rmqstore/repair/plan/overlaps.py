"""Overlaps of actions: no two of a plan may touch the same bytes of a file, and none a file that another one replaces or removes.

A plan may have an action for every record of a file, so each is compared with its neighbours only.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable

from rmqstore.repair.plan.model import Action


class Touched:
    """The ranges of files that actions touch."""

    def __init__(self) -> None:
        self._actions: dict[str, list[Action]] = {}  # by path, ascending by position

    def add(self, action: Action) -> str | None:
        """Add an action; or return, in words, the earlier one that it conflicts with."""
        actions = self._actions.setdefault(action.path, [])
        place = bisect(actions, action.position, key=lambda other: other.position)
        for other in actions[max(place - 1, 0) : place + 1]:
            apart = action.position + action.length <= other.position or other.position + other.length <= action.position
            if not (action.in_place and other.in_place and apart):
                return f"{other.kind} and {action.kind} of {action.path}"
        actions.insert(place, action)
        return None

    def drop(self, action: Action) -> None:
        """Remove an action that was added."""
        self._actions[action.path].remove(action)


def conflict(actions: Iterable[Action]) -> str | None:
    """Return two actions that touch the same bytes or file, in words; None if there are none."""
    touched = Touched()
    return next((clash for clash in map(touched.add, actions) if clash is not None), None)
