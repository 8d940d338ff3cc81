"""Whoever does not rebuild does not load, and so does not compile, the kernels of a rebuild."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = "import sys; print(*sorted(name for name in sys.modules if name.startswith('rmqstore.rebuild')))"


@pytest.mark.parametrize("module", ["rmqstore.verify.engine", "rmqstore.scan.compilation", "rmqstore.dump.run"])
def test_kernels_of_a_rebuild_are_not_loaded(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"import {module}; {LOADED}"], capture_output=True, text=True, check=True)
    assert "rmqstore.rebuild.kernels" not in done.stdout
