"""An iteration whose next item is made in a second thread while the one before it is looked at."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def one_ahead(items: Generator[T, None, None]) -> Iterator[T]:
    """The items in their order, never more than one ahead; what making them raises is raised in its place.

    Worth it for items that compiled code makes, which releases the interpreter lock. When it is given up, nothing runs any more.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item
