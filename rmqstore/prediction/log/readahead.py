"""An iterator that computes its next item in a second thread."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def one_ahead(items: Generator[T, None, None]) -> Iterator[T]:
    """Yield the items in order, computed at most one ahead; an exception of the iterator is raised at its place.

    Useful for items from compiled code, which releases the interpreter lock. Closing the generator stops the thread.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item
