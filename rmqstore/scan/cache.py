"""The file with the machine code of the kernels, in the cache of the user: never beside the sources, never shipped.

Its name is a hash of everything that the code depends on: the sources, the compiler, Python, the processor. The file begins with a hash of
its content; one that does not fit is not used.
"""

from __future__ import annotations

import hashlib
import mmap
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import rmqstore.formats as formats
from rmqstore.kept import keep_file, kept_directory

_HASH_BYTES = hashlib.sha256().digest_size
_LENGTH_BYTES = 8
_PACKAGE = Path(__file__).parents[1]


def kept_path(modules: Sequence[str]) -> Path | None:
    """Return the path of the file with the kernels of `modules`, whether it exists or not; None if it cannot be kept."""
    try:
        name = _name(modules)
    except OSError:  # the package is in an archive
        return None
    directory = kept_directory("kernels")
    return None if directory is None else directory / f"{name}.o"


def read(path: Path) -> list[bytes] | None:
    """Return the objects of a file, None if it does not exist or is damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if data[:_HASH_BYTES] != hashlib.sha256(data[_HASH_BYTES:]).digest():
        return None
    objects, at = [], _HASH_BYTES
    while at < len(data):
        start = at + _LENGTH_BYTES
        at = start + int.from_bytes(data[at:start], "little")
        objects.append(data[start:at])
    return objects


def write(path: Path, objects: Sequence[bytes]) -> None:
    """Write the file if that is possible; other processes see all of it or nothing."""
    content = b"".join(len(one).to_bytes(_LENGTH_BYTES, "little") + one for one in objects)
    keep_file(path, hashlib.sha256(content).digest() + content)


def _name(modules: Sequence[str]) -> str:
    import llvmlite
    import llvmlite.binding as llvm

    state = hashlib.sha256()
    for word in (sys.version, llvmlite.__version__, llvm.get_process_triple(), llvm.get_host_cpu_name(), mmap.PAGESIZE):
        state.update(f"{word}\n".encode())
    state.update(llvm.get_host_cpu_features().flatten().encode())
    # Importing numba to ask for its version would take longer than everything else here.
    compiler = find_spec("numba")
    sources = [] if compiler is None or compiler.origin is None else [Path(compiler.origin).with_name("_version.py")]
    for directory in (Path(__file__).parent, Path(str(formats.__file__)).parent):
        sources += sorted(directory.rglob("*.py"))
    sources += (_PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py") for name in modules)
    for source in sources:
        state.update(source.read_bytes())
    return state.hexdigest()[:32]
