"""The process from which Spark forks its Python workers: what every worker needs is loaded once, here."""

from __future__ import annotations

import pyarrow  # noqa: F401
from pyspark.daemon import manager

import rmqstore.verify.engine  # noqa: F401
from rmqstore.scan import walk  # noqa: F401

if __name__ == "__main__":
    manager()
