"""Preparation of compiled code by commands that read much of a store, before they show progress."""

from __future__ import annotations

from rmqstore.scan import machinecode, sigbus


def compile_kernels(*, quiet: bool) -> None:
    """Load all kernels; if they are compiled for that, report it on standard error unless `quiet`."""
    machinecode.load(quiet=quiet)
    sigbus.install()
