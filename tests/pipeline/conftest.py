"""One Spark session for all tests of a process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def session() -> Iterator[SparkSession]:
    """Two tasks at a time, each tried three times; the workers know the jobs of these tests."""
    from rmqstore.pipeline.spark.session import open_session

    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
    try:
        yield open_session("local[2,3]")
    finally:
        os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)
