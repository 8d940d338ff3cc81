"""One system call that opens a directory several levels down and refuses every link on the way and every way out (openat2, Linux 5.6)."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

_NUMBER = 437
_BENEATH, _NO_SYMLINKS = 0x08, 0x04
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_HOW = struct.pack("=QQQ", _FLAGS, 0, _BENEATH | _NO_SYMLINKS)  # struct open_how

_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
_syscall.restype = ctypes.c_long


def open_directory(here: int, path: str) -> int | None:
    """Return a descriptor of the directory at `path` below the open directory `here`; none of its names is `..`.

    None: the system refused, for whichever reason: only opening one component after the other shows it. Raises FileNotFoundError.
    """
    if sys.platform != "linux":
        return None  # the number is that of another call
    descriptor = int(_syscall(_NUMBER, here, os.fsencode(path), _HOW, len(_HOW)))
    if descriptor >= 0:
        return descriptor
    if ctypes.get_errno() == errno.ENOENT:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return None
