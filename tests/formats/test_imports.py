"""The formats stand on construct, crcmod and the standard library alone, and are imported fast."""

from __future__ import annotations

import subprocess
import sys

from tests.support.waiting import PATIENCE

PROGRAM = """
import sys, pkgutil, importlib
import rmqstore.formats
before = set(sys.modules)
for module in pkgutil.iter_modules(rmqstore.formats.__path__):
    importlib.import_module(f"rmqstore.formats.{module.name}")
foreign = {name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names - {"rmqstore"}
print(*sorted(foreign))
"""


def test_importing_every_format_imports_construct_and_nothing_else() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout.split() == ["construct"]
