"""The files in which users configure Spark."""

from __future__ import annotations

import os
from pathlib import Path


def configuration_files(name: str) -> list[Path]:
    """Return the files of this name in the configuration of Spark."""
    directories = [os.environ.get("SPARK_CONF_DIR"), str(Path(os.environ.get("SPARK_HOME", "/nowhere")) / "conf")]
    return [Path(directory, name) for directory in directories if directory and Path(directory, name).is_file()]
