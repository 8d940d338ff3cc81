"""File systems by URI (s3, gs, hdfs, abfs, file), as pyarrow has them; HDFS through a client that needs neither Java nor Hadoop."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from rmqstore.errors import UnreadableError, UsageError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_RPC_ERROR = re.compile(r'\w+\((?:"[\w.$]+", )?"(.*?)(?:\\n.*)?"\)', re.DOTALL)
"""An error of HDFS with a stack of Java."""
FAILURES = (OSError, ValueError, ImportError, RuntimeError)
"""What file systems raise; RuntimeError comes from that of HDFS."""


def is_remote(path: str) -> bool:
    """Return whether this is a URI and no path."""
    return _URI.match(path) is not None


def opened(uri: str) -> tuple[FileSystem, str]:
    """Return the file system of a URI, and the path in it. Raises UsageError for another scheme, and `FAILURES`."""
    from pyarrow import ArrowInvalid
    from pyarrow.fs import FileSystem

    scheme, _, rest = uri.partition("://")
    if scheme.lower() == "hdfs":
        return _hdfs(uri)
    try:
        system, path = FileSystem.from_uri(f"{_SCHEMES.get(scheme.lower(), scheme)}://{rest}")
    except ArrowInvalid as error:
        raise UsageError(f"{uri} is no URI that can be read: {error}.", "Schemes are s3, s3a, gs, hdfs, abfs and file.") from error
    return system, path


def _hdfs(uri: str) -> tuple[FileSystem, str]:
    """Return the same for HDFS; its settings come from `HADOOP_CONF_DIR` and the URI."""
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    try:
        from rmqstore.pipeline.hdfs import Hdfs
    except ModuleNotFoundError as error:
        raise UsageError("hdfs:// needs the package hdfs-native.", "Run pip install 'rmqstore[hdfs]'.") from error
    parts = urlsplit(uri)
    settings = dict(parse_qsl(parts.query))
    other = next((name for name in settings if "." not in name), None)
    if other is not None:
        raise ValueError(f"{other} is no setting of Hadoop")
    system = Hdfs(host=parts.hostname, port=parts.port, **settings)
    return PyFileSystem(FSSpecHandler(system)), unquote(parts.path) or "/"


@contextmanager
def reading(uri: str) -> Iterator[None]:
    """Translate errors of file systems to one sentence."""
    try:
        yield
    except FAILURES as error:
        hint = "Check the URI, the credentials and the free space here."
        raise UnreadableError(f"{uri} could not be read: {cause_of(error)}.", hint) from error


def cause_of(error: Exception) -> str:
    """Return the first line of what a file system says, without a period."""
    text = str(error).strip()
    told = _RPC_ERROR.fullmatch(text)
    lines = (told[1].replace('\\"', '"') if told else text).splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
