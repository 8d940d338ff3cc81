"""The machine code of the kernels: loaded once per process, from the cache of the user or from the processes that compile it.

This process never imports the compiler. All kernels are compiled together, in two processes in parallel.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

from rmqstore.children import environment
from rmqstore.errors import RmqstoreError
from rmqstore.scan import cache
from rmqstore.scan.crcroutine import crc_address
from rmqstore.terminal import warn

COMPILING = "Compiling for this machine, once; this takes about five seconds ..."
CRC_SYMBOL = "rmqstore_crc32"
SHARES = (
    (
        "rmqstore.scan.kernels.record",
        "rmqstore.rebuild.kernels_append",
        "rmqstore.pipeline.stats.kernels_tally",
        "rmqstore.pipeline.tables.kernels_properties",
        "rmqstore.prediction.queues.kernels_dispatch",
    ),
    (
        "rmqstore.scan.jsonl",
        "rmqstore.scan.kernels.entries",
        "rmqstore.scan.kernels.further",
        "rmqstore.scan.kernels.index",
        "rmqstore.scan.kernels.queue",
        "rmqstore.scan.kernels.raw",
        "rmqstore.scan.kernels.registry",
        "rmqstore.rebuild.kernels_items",
    ),
)
"""All modules that declare kernels, for two processes that need about the same time."""

MODULES = [module for share in SHARES for module in share]
_lock = threading.Lock()
_engines: list[Any] = []  # at most one: it owns the code


def address(symbol: str) -> int:
    """Return the address of a kernel, or of another symbol of the machine code, which is loaded or compiled if necessary."""
    load()
    return int(_engines[0].get_function_address(symbol))


def is_compiled() -> bool:
    """Return whether `load` need not compile, which takes some seconds."""
    path = None if _engines else cache.kept_path(MODULES)
    return bool(_engines) or (path is not None and path.exists())


def load(*, quiet: bool = False) -> None:
    """Load the machine code; if it is compiled for that, report it on standard error. Raises RmqstoreError if that fails."""
    with _lock:
        if _engines:
            return
        path = cache.kept_path(MODULES)
        objects = None if path is None else cache.read(path)
        if objects is None:
            if not quiet:
                warn(COMPILING)
            objects = _compiled()
            if path is not None:
                cache.write(path, objects)
        _engines.append(_engine(objects))


def add_symbols() -> None:
    """Name for the loader what the machine code does not contain."""
    import llvmlite.binding as llvm

    llvm.add_symbol(CRC_SYMBOL, crc_address(llvm.get_host_cpu_features()))


def _compiled() -> list[bytes]:
    try:
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "rmqstore.scan.compiler", *share],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment(),
            )
            for share in SHARES
        ]
    except OSError as error:
        raise _failed(str(error)) from error
    results = [process.communicate() for process in processes]
    for process, (_, messages) in zip(processes, results, strict=True):
        if process.returncode != 0:
            raise _failed(messages.decode(errors="replace").strip().rpartition("\n")[2] or f"exit status {process.returncode}")
    return [code for code, _ in results]


def _failed(why: str) -> RmqstoreError:
    return RmqstoreError(f"The code that reads stores could not be compiled: {why}.", "Install rmqstore again with its dependencies.")


def _engine(objects: Sequence[bytes]) -> Any:
    """Return LLVM's loader with the objects, linked with this process."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    add_symbols()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    # With all sections in one reservation: apart from each other, their references would not fit, and LLVM would end the process.
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine, use_lmm=True)
    for code in objects:
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine
