"""HDFS for pyarrow: the client of hdfs-native, with times of files, and names that replace others as those of other file systems do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hdfs_native.fsspec import HdfsFileSystem

_ATTEMPTS = "dfs.client.failover.max.attempts"
_FOR_ONE = "3"
"""Attempts for a name node that has no other one: the 15 of Hadoop take minutes until a wrong port is reported."""


class Hdfs(HdfsFileSystem):
    """The file system of a name node (with a port) or of a name service in Hadoop's configuration; settings as in `hdfs-site.xml`."""

    def __init__(self, host: str | None = None, port: int | None = None, **settings: str) -> None:
        if port is not None:
            settings = {_ATTEMPTS: _FOR_ONE, **settings}
        super().__init__(host=host, port=port, **settings)

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        """Return what pyarrow wants to know of a file or directory. Raises FileNotFoundError, RuntimeError."""
        return _timed(super().info(path, **options))

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        """Return the same for all entries of a directory, or their names. Raises FileNotFoundError, RuntimeError."""
        found = super().ls(path, detail, **options)
        return [_timed(entry) for entry in found] if detail else found

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        """Rename a file; one that has the new name is replaced. Raises FileNotFoundError, RuntimeError."""
        super().mv(path1, path2, overwrite=True, **options)


def _timed(info: Any) -> dict[str, Any]:
    return {**info, "mtime": datetime.fromtimestamp(info["modification_time"] / 1000, UTC)}
