"""The native SIGBUS handler: replaces the page that was touched by a page of zeros and counts it."""

from __future__ import annotations

import mmap

import llvmlite.ir as ir

from rmqstore.scan.sigbus import COUNTER, HANDLER

# Also for writes: a file that is made on a full disk loses its pages when they are first written to.
_PROT_READ_WRITE = 1 | 2
_PRIVATE_FIXED_ANONYMOUS = 0x02 | 0x10 | 0x20
_ADDRESS_OFFSET = 16  # si_addr in siginfo_t of 64-bit Linux


def handler_source() -> str:
    """Return LLVM's representation of `void handler(int, siginfo_t *, void *)` and of the int64 with the number of replaced pages."""
    module = ir.Module("sigbus")
    number, word = ir.IntType(32), ir.IntType(64)
    counter = ir.GlobalVariable(module, word, COUNTER)
    counter.initializer = ir.Constant(word, 0)
    map_page = ir.Function(module, ir.FunctionType(word, [word, word, number, number, number, word]), "mmap")
    handler = ir.Function(module, ir.FunctionType(ir.VoidType(), [number, word, word]), HANDLER)
    builder = ir.IRBuilder(handler.append_basic_block())
    place = builder.add(handler.args[1], ir.Constant(word, _ADDRESS_OFFSET))
    touched = builder.load(builder.inttoptr(place, word.as_pointer()))
    page = builder.and_(touched, ir.Constant(word, -mmap.PAGESIZE))
    flags = (ir.Constant(number, value) for value in (_PROT_READ_WRITE, _PRIVATE_FIXED_ANONYMOUS, -1))
    builder.call(map_page, [page, ir.Constant(word, mmap.PAGESIZE), *flags, ir.Constant(word, 0)])
    builder.store(builder.add(builder.load(counter), ir.Constant(word, 1)), counter)
    builder.ret_void()
    return str(module)
