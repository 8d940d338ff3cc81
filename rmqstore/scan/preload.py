"""Preloading of compiled kernels, for a process that drops the rights to read the cache of its user."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

from numba.core.dispatcher import Dispatcher


def load_kernels(modules: Iterable[ModuleType]) -> None:
    """Load every kernel of `modules` that the cache has; one that it does not have is compiled when it is called, and not kept."""
    for module in modules:
        for kernel in vars(module).values():
            if isinstance(kernel, Dispatcher) and hasattr(kernel._cache, "_cache_file"):
                for signature, *_ in list(kernel._cache._cache_file._load_index()):
                    kernel.compile(signature)
                kernel._cache.disable()
