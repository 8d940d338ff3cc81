"""A transaction that was stopped in the middle."""

from __future__ import annotations

import pytest

from rmqstore.repair.transaction.folder import Transaction, unfinished
from tests.repair.every_action import Changing
from tests.repair.faults import KillAt, Killed


def stop_in_the_middle(changing: Changing) -> Transaction:
    """Applies the kept plan of a store, and dies after the store began to change."""
    for at in range(60, 600, 20):
        with pytest.raises(Killed):
            changing.apply(KillAt(at))
        stopped = unfinished(changing.root)
        if stopped is not None:
            return stopped
    raise AssertionError("it was never in the middle")
