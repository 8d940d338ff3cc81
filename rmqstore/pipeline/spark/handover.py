"""Names that the process of Spark's Python workers and the command agree on (see `daemon`)."""

from __future__ import annotations

DAEMON = "rmqstore.pipeline.spark.daemon"
"""The module of the process."""

WAITING = "RMQSTORE_WAITING_DAEMON"
"""The variable that names the socket where a process waits."""

JOBS, SQL = "jobs", "sql"
"""Kinds of work."""
