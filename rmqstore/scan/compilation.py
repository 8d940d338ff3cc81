"""Compilation of the kernels, once per machine and state of the sources, announced to the user."""

from __future__ import annotations

import sys

from rmqstore.scan import machinecode, sigbus


def compile_kernels(*, quiet: bool) -> None:
    """Load all kernels; if they are compiled for that, report it on standard error."""
    if not quiet and not machinecode.is_compiled():
        sys.stderr.write("Compiling for this machine, once; this takes about five seconds ...\n")
    sigbus.install()
