"""Compilation of the kernels: once per machine and state of the sources, in two processes in parallel.

Compiling is plain Python work of some seconds, most of it in the record walker. On the first use the other kernels are compiled by a
second process meanwhile; both put their results into the same cache.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqstore.children import environment
from rmqstore.scan import sigbus
from rmqstore.scan.kernels import index, queue, raw, record


def compile_kernels(*, quiet: bool) -> None:
    """Compile all kernels of a verification unless the cache has them, and report that on standard error."""
    sigbus.install()
    if _cached():
        return
    if not quiet:
        sys.stderr.write("Compiling for this machine, once; this takes about five seconds ...\n")
    helper = None
    # Without a second process every kernel is compiled here when it is first called.
    with contextlib.suppress(OSError):
        helper = subprocess.Popen(
            [sys.executable, "-m", "rmqstore.scan.compilation"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )
    try:
        compile_walker()
    finally:
        if helper is not None:
            helper.wait()


def compile_walker() -> None:
    """Call the kernel that takes longest without data, with the types it always has."""
    memory = _memory()
    nothing = memory.ctypes.data
    record.walk(nothing, 0, 0, 0, 0, 0, 0, nothing, 0, nothing, nothing, 0, 0, nothing, 0, 0)


def compile_others() -> None:
    """Call all other kernels of a verification without data: rows and buffers are addresses, and no row is read."""
    memory = _memory()
    nothing = memory.ctypes.data
    record.resync(nothing, 0, 0, 0, 0, 0)
    raw.first_nonzero(nothing, 0, 0)
    queue.claim_units(nothing, 0, 0, 1, *[nothing] * 5)
    index.follow_chains(nothing, 1, 0, nothing, 1, nothing, 0, 0)
    index.match_items(nothing, nothing, 0, 0, nothing, 1, 0, 0, 1, 0, 0, nothing, nothing, 0)


def _memory() -> npt.NDArray[np.uint8]:
    """Return zeros for kernels to read and to write their counts and states to; hold them as long as kernels know the address."""
    return np.zeros(4096, np.uint8)


def _cached() -> bool:
    """Return whether the kernel that takes longest is in the cache; the others are there with it, or are compiled when they are called."""
    directory = Path(str(record.walk.stats.cache_path))
    return directory.is_dir() and any(directory.glob("record.walk-*.nbi"))


if __name__ == "__main__":
    compile_others()
