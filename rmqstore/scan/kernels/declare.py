"""The declaration of compiled code: kernels that Python calls, the parts of kernels, and instructions that parts are made of.

A declaration imports no compiler. `rmqstore.scan.compilation` compiles all kernels at once, and `rmqstore.scan.machinecode` loads the
result, so only the process that compiles imports numba. Integers are 64 bits wide and wrap around; a division by zero gives zero.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable
from functools import cached_property, update_wrapper
from typing import Any, TypeVar, cast

from rmqstore.scan import machinecode

_Function = TypeVar("_Function", bound=Callable[..., Any])

NUMPY_DIVISION: dict[str, Any] = {"error_model": "numpy"}


class Kernel:
    """A function of int64 arguments that returns None, an int64 or a tuple of them. Other threads run while it does."""

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self.function = function
        self.symbol = f"{function.__module__}.{function.__name__}"
        self.arguments = len(inspect.signature(function).parameters)
        self.results = str(function.__annotations__["return"]).count("int")
        self._memory = ctypes.c_int64 * (self.results + 1)

    @cached_property
    def _call(self) -> Any:
        # As numba calls it: a status, which is 0 for code without exceptions; addresses for the results and for an exception.
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * self.arguments)
        return kind(machinecode.address(self.symbol))

    def __call__(self, *arguments: int) -> Any:
        memory = self._memory()
        place = ctypes.addressof(memory)
        if self._call(place, place + 8 * self.results, *map(int, arguments)) != 0:
            raise ArithmeticError(f"{self.symbol} failed")
        if self.results == 1:
            return memory[0]
        return tuple(memory[: self.results]) if self.results else None


class _Part:
    """A function that only compiled code calls."""

    def __init__(self, function: Callable[..., Any], *, inlined: bool) -> None:
        self._function = function
        self._options = {"forceinline": True} if inlined else {}

    @cached_property
    def _dispatcher(self) -> Any:
        from numba import njit

        return njit(**self._options, **NUMPY_DIVISION, no_cpython_wrapper=True, no_cfunc_wrapper=True)(self._function)

    @property
    def _numba_type_(self) -> Any:
        """The type that numba gives to a mention of the function."""
        return self._dispatcher._numba_type_


class _Instruction:
    """A function of compiled code whose instructions are written in LLVM's representation."""

    def __init__(self, signature: str, generate: Callable[..., Any]) -> None:
        self._signature = signature
        self._generate = generate

    @cached_property
    def _intrinsic(self) -> Any:
        import llvmlite.ir as ir
        from numba.core.sigutils import normalize_signature
        from numba.extending import intrinsic

        kinds, result = normalize_signature(self._signature)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            values = self._generate(ir, builder, *arguments)
            if values is None:
                return context.get_dummy_value()
            return context.make_tuple(builder, signature.return_type, values) if isinstance(values, list) else values

        def define(typing: Any, *arguments: Any) -> Any:
            return result(*kinds), generate

        names = ("typing", *(f"argument{number}" for number in range(len(kinds))))
        parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names]
        define.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        define.__name__ = getattr(self._generate, "__name__", "instruction")
        return intrinsic(define)

    @cached_property
    def _numba_type_(self) -> Any:
        """The type that numba gives to a mention of the function."""
        from numba.core.registry import cpu_target

        made = self._intrinsic
        cpu_target.typing_context.refresh()
        return cpu_target.typing_context.resolve_value_type(made)


def kernel(function: _Function) -> _Function:
    """Declare a kernel: all arguments are int64; the annotation of its result is None, int or a tuple of int."""
    return cast(_Function, Kernel(function))


def part(function: _Function) -> _Function:
    """Declare a part of kernels. Its arguments have the types of what is passed; it can only be called from compiled code."""
    return cast(_Function, _Part(function, inlined=False))


def inlined(function: _Function) -> _Function:
    """Declare a part that is always inlined."""
    return cast(_Function, _Part(function, inlined=True))


def instruction(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """Declare an instruction with its types as numba writes them, such as `int64(uintp, int64)`.

    The function gets the module `llvmlite.ir`, the builder and the values of the arguments, and returns a value, a list of several or None.
    """
    return lambda generate: _Instruction(signature, generate)
