"""Makes the compiled kernels ready: once per machine and state of the sources, in two processes side by side.

Compiling is plain Python work of some seconds, most of it in the record walker. On the first use the kernels of queues and index are
compiled by a second process meanwhile; both put their results into the same cache.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import numpy as np

from rmqstore.scan import kernels_index, kernels_queue, kernels_record, raw, sigbus
from rmqstore.scan.columns import KEY_DTYPE, RECORD_DTYPE
from rmqstore.scan.names import Names


def prepare(*, quiet: bool) -> None:
    """Compiles all kernels of a verification unless the cache has them, and says so on standard error."""
    sigbus.install()
    if _cached():
        return
    if not quiet:
        sys.stderr.write("Compiling for this machine, once; this takes a few seconds ...\n")
    helper = None
    # Without a second process every kernel is compiled here when it is first called.
    with contextlib.suppress(OSError):
        helper = subprocess.Popen(
            [sys.executable, "-m", "rmqstore.scan.firstuse"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    try:
        compile_record_kernels()
    finally:
        if helper is not None:
            helper.wait()


def compile_record_kernels() -> None:
    """Calls the kernels of the log on nothing, with the types they always have."""
    data = np.zeros(64, np.uint8)
    place = (data.ctypes.data, 0, data.size, data.size, 0)
    state, delays = Names(2).state, np.zeros(1, np.int64)
    kernels_record.walk(*place, 0, 0, delays, state.ctypes.data, np.zeros(1, RECORD_DTYPE), 0, np.zeros(128, KEY_DTYPE), 0)
    kernels_record.resync(*place)
    raw.first_nonzero(data.ctypes.data, 0, data.size)


def compile_derived_kernels() -> None:
    """Calls the kernels of queues and index on nothing: rows and buffers are addresses, and no row is to be looked at."""
    memory = np.zeros(64, np.uint8)
    nothing = memory.ctypes.data
    kernels_queue.claim_units(nothing, 0, 0, 1, *[nothing] * 5)
    kernels_index.follow_chains(nothing, 1, 0, nothing, 1, nothing, 0, 0)
    kernels_index.match_items(nothing, nothing, 0, 0, nothing, 1, 0, 0, 1, 0, 0, nothing, nothing, 0)


def _cached() -> bool:
    """Whether the kernel that takes longest is in the cache; the others are there with it, or are compiled when they are called."""
    directory = Path(str(kernels_record.walk.stats.cache_path))
    return directory.is_dir() and any(directory.glob("kernels_record.walk-*.nbi"))


if __name__ == "__main__":
    compile_derived_kernels()
