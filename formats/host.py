"""Host addresses as the store writes them: 4 or 16 address bytes, then the port as a 32-bit integer.

Source: fact sheet commitlog §2.1 fields 10 and 12, §2.10 (all releases; IPv6 since 4.6.0).
"""

from __future__ import annotations

import ipaddress
from typing import Any

from construct import Bytes, Construct, ExprAdapter, Int32sb, Struct

HOST_V4 = Struct(
    "address" / Bytes(4) * "IPv4 address",
    "port" / Int32sb * "TCP port",
)

HOST_V6 = Struct(
    "address" / Bytes(16) * "IPv6 address",
    "port" / Int32sb * "TCP port",
)


def format_host(address: bytes, port: int) -> str:
    """Return `10.9.8.7:10911` or `[fe80::1]:10911` (RFC 5952) of 4 or 16 address bytes."""
    ip = ipaddress.ip_address(bytes(address))
    return f"{ip}:{port}" if ip.version == 4 else f"[{ip}]:{port}"


def parse_host(text: str) -> tuple[bytes, int]:
    """Return address bytes and port of a text that `format_host` gives; raises ValueError for any other text."""
    host, colon, port = text.rpartition(":")
    if not colon:
        raise ValueError(f"{text!r} has no port")
    bracketed = host.startswith("[") and host.endswith("]")
    ip = ipaddress.ip_address(host[1:-1] if bracketed else host)
    if bracketed != (ip.version == 6):
        raise ValueError(f"{text!r} is not a host and port")
    return ip.packed, int(port)


def _to_text(parsed: Any, _context: Any) -> str:
    return format_host(parsed.address, parsed.port)


def _from_text(text: str, _context: Any) -> dict[str, Any]:
    address, port = parse_host(text)
    return {"address": address, "port": port}


def host_text(host: Struct) -> Construct[Any, Any]:
    """Return HOST_V4 or HOST_V6 with the text form as its value. Building an address of the other kind raises a construct error."""
    return ExprAdapter(host, _to_text, _from_text)
