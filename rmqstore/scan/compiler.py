"""The compiler of the kernels: a program that prints the object file of the modules named by its arguments."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import llvmlite.binding as llvm
from numba import njit, types

from rmqstore.scan import machinecode
from rmqstore.scan.kernels.declare import NUMPY_DIVISION, Kernel
from rmqstore.scan.kernels.sigbus import handler_source


def object_file(modules: Iterable[str]) -> bytes:
    """Return the kernels of `modules` as position-independent code for this processor."""
    machinecode.add_symbols()  # numba links what it compiles with this process
    whole = llvm.parse_assembly("")
    for name in modules:
        module = import_module(name)
        for declared in vars(module).values():
            if isinstance(declared, Kernel) and declared.function.__module__ == name:
                whole.link_in(_compiled(declared))
        if name == "rmqstore.scan.kernels.raw":
            whole.link_in(llvm.parse_assembly(handler_source()))
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, reloc="pic", codemodel="default"
    )
    return bytes(machine.emit_object(whole))


def _compiled(kernel: Kernel) -> Any:
    """Return a kernel with its parts as a module of LLVM in which only the kernel can be called from outside."""
    arguments = (types.int64,) * kernel.arguments
    result = types.UniTuple(types.int64, kernel.results) if kernel.results > 1 else types.int64 if kernel.results else types.void
    dispatcher = njit(**NUMPY_DIVISION, no_cpython_wrapper=True, no_cfunc_wrapper=True)(kernel.function)
    dispatcher.compile(result(*arguments))
    made = dispatcher.overloads[arguments]
    module = llvm.parse_assembly(made.library.get_llvm_str())
    for function in module.functions:
        if function.name == made.fndesc.llvm_func_name:
            function.name = kernel.symbol
        elif not function.is_declaration:
            function.linkage = "internal"
    return module


if __name__ == "__main__":
    gc.disable()  # a tenth of the time, and the process ends soon
    sys.stdout.buffer.write(object_file(sys.argv[1:]))
