"""Loading of this program while the process has no rights to read it, for example if Python is installed in the home of root."""

from __future__ import annotations

import builtins
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any


def load_packages(names: Iterable[str]) -> None:
    """Load all modules of packages of this project, and the compiled kernels."""
    for name in names:
        package = importlib.import_module(f"rmqstore.{name}")
        for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(one.name)
    # This imports LLVM, so it is imported here only.
    from rmqstore.scan import sigbus

    sigbus.install()


@contextmanager
def importing_with(rights: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Import with other rights the modules that those of the process cannot read: libraries load parts of themselves late."""
    plain = builtins.__import__

    def load(*arguments: Any, **options: Any) -> Any:
        try:
            return plain(*arguments, **options)
        except (ImportError, PermissionError):
            with rights():
                return plain(*arguments, **options)

    builtins.__import__ = load
    try:
        yield
    finally:
        builtins.__import__ = plain
