"""Nothing in the project but the write layer opens a file for writing, or changes a name or an attribute."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path for top in ("rmqstore", "commands", "formats") for path in (ROOT / top).rglob("*.py") if "__pycache__" not in path.parts
)
WRITE_LAYER = ROOT / "rmqstore" / "repair" / "files" / "writer.py"
# Modules that write where the person says, which may not be a store, and into temporary directories.
OF_OTHER_PLACES = {
    "rmqstore/repair/plan/planned.py",
    "rmqstore/store/rocksdb/queuefiles.py",
    "rmqstore/pipeline/export/attempt.py",
    "rmqstore/pipeline/export/destination.py",
    "rmqstore/pipeline/spark/java_classes.py",
    "rmqstore/pipeline/publish.py",
    "rmqstore/pipeline/fetching.py",
    "rmqstore/repair/sources/archive.py",
    "rmqstore/pipeline/spark/java_process.py",
    "rmqstore/pipeline/spark/source.py",
}
# What may stand elsewhere, by what the search says of it.
ALLOWED = {
    "rmqstore/repair/plan/staging.py": ("maps for writing", "rmtree"),  # staged files, which no broker knows yet, for those who fill them
    "rmqstore/repair/files/lock.py": ("O_RDWR",),  # a lock needs a descriptor that could write
    "rmqstore/store/liveness.py": ("O_",),  # what other processes opened
    "rmqstore/cli.py": ("O_WRONLY",),  # the null device, in the place of a closed pipe
    "rmqstore/pipeline/spark/daemon.py": ("O_RDWR",),  # the null device, in the place of streams that were handed over
    # Compiled kernels and loaded classes, in the cache of the user.
    "rmqstore/kept.py": ("mkdir", "rmdir", "chmod", "unlink"),
    "rmqstore/store/rocksdb/library.py": (
        "symlink_to",
        "copyfile",
    ),  # links to the files of a database, or copies, in a temporary directory
    "rmqstore/ownership.py": ("mkdir",),  # the directories of that cache
    "rmqstore/api/plan.py": ("rmtree",),  # the temporary directory of a plan that is only an object
}

# Methods of os, shutil and Path by which a disk changes, whatever they are called on.
CHANGING = frozenset(
    {
        *("write_bytes", "write_text", "touch", "unlink", "rename", "renames", "rmdir", "removedirs", "mkdir", "makedirs", "symlink_to"),
        *("hardlink_to", "chmod", "lchmod", "chown", "lchown", "utime", "ftruncate", "fchmod", "fchown", "pwrite", "pwritev"),
        *("sendfile", "copy_file_range", "posix_fallocate", "mkfifo", "mknod", "symlink", "rmtree", "copyfile", "copytree"),
        *("copy2", "fallocate", "memmap", "tofile", "open_memmap"),
    }
)
# Words that lists, sets and planners use for things of their own.
OF_MODULES = frozenset({"truncate", "remove", "move", "link", "replace"})
MODULES = frozenset({"os", "shutil"})
WRITERS = frozenset({"writer", "_writer"})
OPEN_FLAGS = frozenset({"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"})


def test_only_the_write_layer_writes() -> None:
    """One case for all modules: of many cases a run takes some only."""
    found: dict[str, list[str]] = {}
    for source in SOURCES:
        name = source.relative_to(ROOT).as_posix()
        if source != WRITE_LAYER and name not in OF_OTHER_PLACES:
            allowed = ALLOWED.get(name, ())
            what = _writes(ast.parse(source.read_text(encoding="utf-8")))
            found[name] = [one for one in what if not any(part in one for part in allowed)]
    assert {name: what for name, what in found.items() if what} == {}


def test_lists_name_modules_that_are_there() -> None:
    names = {source.relative_to(ROOT).as_posix() for source in SOURCES}
    assert OF_OTHER_PLACES | set(ALLOWED) <= names


def test_the_search_sees_the_write_layer() -> None:
    assert len(list(_writes(ast.parse(WRITE_LAYER.read_text(encoding="utf-8"))))) > 10


@pytest.mark.parametrize(
    "text",
    [
        "open(path, 'wb')",
        "open(path, mode='r+b')",
        "path.open('a')",
        "path.write_bytes(b'')",
        "os.open(path, os.O_RDWR)",
        "os.unlink(path)",
        "os.truncate(path, 10)",
        "path.rename(other)",
        "shutil.rmtree(path)",
        "numpy.memmap(path)",
        "mmap.mmap(descriptor, 10, access=mmap.ACCESS_WRITE)",
        "mmap.mmap(descriptor, 10)",
        "io.FileIO(path, 'r+')",
    ],
)
def test_the_search_sees(text: str) -> None:
    assert list(_writes(ast.parse(text)))


@pytest.mark.parametrize("text", ["open(path)", "path.open('rb')", "items.remove(1)", "self._writer.unlink(path)", "stream.write('x')"])
def test_the_search_lets_pass(text: str) -> None:
    assert not list(_writes(ast.parse(text)))


def _writes(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in OPEN_FLAGS:
            yield f"line {node.lineno}: {node.attr}"
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
        on = _owner(node.func)
        if name in ("open", "fdopen", "FileIO") and on != "os" and any(set("wax+") & set(mode) for mode in _modes(node)):
            yield f"line {node.lineno}: opens for writing"
        elif name == "mmap" and not _is_read_only(node):
            yield f"line {node.lineno}: maps for writing"
        elif (name in CHANGING and on not in WRITERS) or (name in OF_MODULES and on in MODULES):
            yield f"line {node.lineno}: {name}"


def _owner(function: ast.expr) -> str:
    """The last name in front of the method: `_writer` of `self._writer.unlink`."""
    value = function.value if isinstance(function, ast.Attribute) else None
    if isinstance(value, ast.Attribute):
        return value.attr
    return value.id if isinstance(value, ast.Name) else ""


def _modes(node: ast.Call) -> Iterator[str]:
    candidates = [*node.args[:2], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
    for value in candidates:
        if isinstance(value, ast.Constant) and isinstance(value.value, str) and len(value.value) <= 3:
            yield value.value


def _is_read_only(node: ast.Call) -> bool:
    return any("PROT_READ" in ast.dump(keyword.value) or "ACCESS_READ" in ast.dump(keyword.value) for keyword in node.keywords)
