"""The files in which users configure Spark."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

LOG_LEVEL = "spark.log.level"
"""The setting for what the log of Spark contains."""


def configuration_files(name: str) -> list[Path]:
    """Return the files of this name in the configuration of Spark."""
    directories = [os.environ.get("SPARK_CONF_DIR"), str(Path(os.environ.get("SPARK_HOME", "/nowhere")) / "conf")]
    return [Path(directory, name) for directory in directories if directory and Path(directory, name).is_file()]


def has_log_settings() -> bool:
    """Return whether these files say what the log of Spark contains."""
    if configuration_files("log4j2.properties"):
        return True
    with suppress(OSError):
        return any(LOG_LEVEL in file.read_text(errors="replace") for file in configuration_files("spark-defaults.conf"))
    return False
