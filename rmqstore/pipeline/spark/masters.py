"""Masters of clusters that cannot be reached: Spark itself reports them after minutes, if at all."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from rmqstore.errors import RefusedError
from rmqstore.pipeline.spark.configuration import configuration_files

_CONNECTING = 10
"""Seconds for a connection to a master."""
_HADOOP = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_MANAGER = "yarn.resourcemanager."
_MANAGERS_PORT = 8032


def require_master(master: str) -> None:
    """Raise RefusedError if YARN is not configured, or no host of a standalone master or of the resource manager of YARN listens."""
    if master.startswith("spark://"):
        _require_one("The master of Spark", master.removeprefix("spark://").split(","), "--master")
    elif master == "yarn":
        directories = [Path(os.environ[name]) for name in _HADOOP if os.environ.get(name)]
        if not directories and not configuration_files("spark-env.sh"):
            raise RefusedError(
                "The master yarn needs the configuration of Hadoop, and neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set.",
                "Set HADOOP_CONF_DIR to the directory with yarn-site.xml.",
            )
        _require_one("The resource manager of YARN", _resource_manager(directories), "yarn-site.xml")


def _resource_manager(directories: Sequence[Path]) -> list[str]:
    """Return the address of the resource manager; none where a configuration has several, or says it in ways that Hadoop alone reads."""
    said: dict[str, str] = {}
    for directory in directories:
        said |= _properties(directory / "yarn-site.xml")
    address = said.get(f"{_MANAGER}address")
    if address is None and f"{_MANAGER}hostname" in said:
        address = f"{said[f'{_MANAGER}hostname']}:{_MANAGERS_PORT}"
    return [] if address is None or "$" in address or said.get(f"{_MANAGER}ha.enabled") == "true" else [address]


def _properties(file: Path) -> Mapping[str, str]:
    try:
        root = ElementTree.parse(file).getroot()
    except (OSError, ElementTree.ParseError):
        return {}
    return {one.findtext("name", "").strip(): one.findtext("value", "").strip() for one in root.iter("property")}


def _require_one(what: str, addresses: Sequence[str], named_by: str) -> None:
    """Raise RefusedError if no address of some takes a connection."""
    reasons = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECTING).close()
        except (OSError, ValueError) as error:
            reasons.append(f"{address}: {error.strerror or error if isinstance(error, OSError) else 'no port'}")
        else:
            return
    if reasons:
        raise RefusedError(f"{what} cannot be reached ({'; '.join(reasons)}).", f"Check {named_by}, and that this host can connect to it.")
