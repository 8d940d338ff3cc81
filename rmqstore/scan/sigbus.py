"""Protection against SIGBUS: a file that shrinks under a mapped window, or a failing or full disk, must not end the process.

The kernel answers access to a mapped page that lost its file with SIGBUS. The native handler installed here puts a page of zeros in
its place and counts; the scan continues over zeros, and the reader calls `faults()` afterwards and reports the change instead of using
the bytes. Only Linux needs and gets it.
"""

from __future__ import annotations

import ctypes
import mmap
import signal
import sys
import threading

_SA_SIGINFO = 4
_SA_ONSTACK = 0x08000000
_lock = threading.Lock()
_handlers: list[object] = []  # at most one: the native code must live as long as the process
_count = (ctypes.c_int64 * 1)()


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
        if _handlers:
            return
        from rmqstore.scan.kernels import sigbus

        handler = sigbus.make_handler(ctypes.addressof(_count), mmap.PAGESIZE)
        _handlers.append(handler)
        action = _SigAction(handler=handler.address, flags=_SA_SIGINFO | _SA_ONSTACK)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.sigaction(int(signal.SIGBUS), ctypes.byref(action), None) != 0:
            raise OSError(ctypes.get_errno(), "sigaction")


def faults() -> int:
    """Return how many pages were replaced since the process started."""
    return int(_count[0])
