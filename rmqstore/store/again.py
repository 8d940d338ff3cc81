"""Looks at a store beside a running broker, which deletes old files at any time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from rmqstore.errors import GoneError, StoreChangedError

Seen = TypeVar("Seen")
_LOOKS, _PAUSE = 4, 0.02  # looks in all, seconds between them


def try_again(look: Callable[[], Seen]) -> Seen:
    """Return what `look` returns; where a file is removed or shrinks while it is read, look again. Raises what the last look raises."""
    for _ in range(_LOOKS - 1):
        try:
            return look()
        except (GoneError, StoreChangedError):
            time.sleep(_PAUSE)
    return look()
