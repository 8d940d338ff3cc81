"""Machine code is loaded whatever is mapped already: its sections refer to each other within 2 GiB."""

from __future__ import annotations

import subprocess
import sys

from tests.support.waiting import PATIENCE

# Address space in many small pieces with gaps of one page, and large reservations, as memory allocators of libraries leave it.
CODE = """
import ctypes
import mmap

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
reserved = 0x4022  # private, anonymous, without swap space
page = mmap.PAGESIZE
for _ in range(200):
    place = libc.mmap(None, 3 * page, 0, reserved, -1, 0)
    libc.munmap(ctypes.c_void_p(place + page), page)
    libc.mmap(None, 3 << 30, 0, reserved, -1, 0)
from rmqstore.scan.machinecode import load
load(quiet=True)
print("loaded")
"""


def test_sections_lie_near_each_other() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", CODE], capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert (done.returncode, done.stdout) == (0, "loaded\n"), done.stderr
