"""Protection against SIGBUS: a file that shrinks under a mapped window, or a failing or full disk, must not end the process.

The kernel answers access to a mapped page that lost its file with SIGBUS. The native handler installed here puts a page of zeros in
its place and counts; the scan continues over zeros, and the reader calls `faults()` afterwards and reports the change instead of using
the bytes. Only Linux needs and gets it.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading

from rmqstore.scan import machinecode

_SA_SIGINFO = 4
_SA_ONSTACK = 0x08000000
HANDLER = "rmqstore_sigbus"
COUNTER = "rmqstore_replaced_pages"
_lock = threading.Lock()
_counters: list[ctypes.c_int64] = []  # at most one: that of the handler


class _SigAction(ctypes.Structure):
    _fields_ = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


def install() -> None:
    """Install the handler once per process; do nothing if it is installed or on other platforms."""
    if not sys.platform.startswith("linux"):
        return
    with _lock:
        if _counters:
            return
        action = _SigAction(handler=machinecode.address(HANDLER), flags=_SA_SIGINFO | _SA_ONSTACK)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.sigaction(int(signal.SIGBUS), ctypes.byref(action), None) != 0:
            raise OSError(ctypes.get_errno(), "sigaction")
        _counters.append(ctypes.c_int64.from_address(machinecode.address(COUNTER)))


def faults() -> int:
    """Return how many pages were replaced since the process started."""
    return _counters[0].value if _counters else 0
