"""Content of a message id: the broker and the place in its log, or the client and the time of sending.

Source: `MessageDecoder.createMessageId`, `MessageClientIDSetter`; `MessageIdCodec` of the client of 5.x for gRPC.
"""

from __future__ import annotations

import ipaddress
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from rmqstore.formats.message_id import UNIQUE_KEY_V4, UNIQUE_KEY_V6, decode_offset_message_id

_ID = re.compile(r"[0-9A-Fa-f]{32}|[0-9A-Fa-f]{34}|[0-9A-Fa-f]{56}")
_GRPC = re.compile(r"01[0-9A-Fa-f]{32}")
_GRPC_EPOCH = datetime(2021, 1, 1, tzinfo=UTC)
_HIGHEST_PORT = 65535
_LONGEST_MONTH = 31 * 24 * 3600 * 1000


def is_message_id(text: str) -> bool:
    """Return whether a text has the form of a message id."""
    return _ID.fullmatch(text) is not None and (len(text) != 34 or _GRPC.fullmatch(text) is not None)


def explained(text: str, now: datetime) -> dict[str, Any]:
    """Return the content of a message id as `explain` prints it. `now`: the month of a unique key is this one or an earlier one.

    An offset id has the port of the broker in four bytes of which the first two are zero; a unique key has the process id and a hash there.
    """
    text = text.upper()
    if _GRPC.fullmatch(text):
        return _of_grpc(text)
    address, port, offset = decode_offset_message_id(text)
    if 0 < port <= _HIGHEST_PORT and offset >= 0:
        return {
            "type": "message_id",
            "id": text,
            "kind": "offset id",
            "host": f"{_address(address)}:{port}",
            "physical_offset": offset,
            "meaning": f"The broker at {_address(address)}:{port} stored the message at physical offset {offset} of its commit log. The id "
            "is made from the address that the broker had then: in a store that was moved, the offset still holds (apache/rocketmq#331).",
            "next": f"rmqstore query STORE --offset-id {text}",
        }
    return _of_unique_key(text, now)


def _of_unique_key(text: str, now: datetime) -> dict[str, Any]:
    data = bytes.fromhex(text)
    fields = (UNIQUE_KEY_V4 if len(data) == UNIQUE_KEY_V4.sizeof() else UNIQUE_KEY_V6).parse(data)
    milliseconds = fields.milliseconds & 0xFFFFFFFF  # an int of Java, negative from the 25th day of a month on
    into_month = timedelta(milliseconds=milliseconds)
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    if month + into_month > now:
        month = (month - timedelta(days=1)).replace(day=1)
    plausible = milliseconds <= _LONGEST_MONTH
    time = f"{month + into_month:%Y-%m-%d %H:%M:%S}" if plausible else None
    clock = str(timedelta(seconds=into_month.seconds))
    when = (
        f"{into_month.days} days, {clock} into a month: {time} if it was the last month that fits, by the clock and time zone of the client"
        if plausible
        else "at a time that is no time within a month, so this may be no id of RocketMQ"
    )
    return {
        "type": "message_id",
        "id": text,
        "kind": "unique key",
        "host": str(_address(fields.address)),
        "process_id": fields.process_id,
        "counter": fields.counter,
        "milliseconds_into_month": milliseconds,
        "time_if_last_month": time,
        "meaning": f"A client at {_address(fields.address)}, process {fields.process_id} (low 16 bits), made its message number "
        f"{fields.counter} (modulo 65536) {when}. It does not say which broker has the message.",
        "next": f"rmqstore query STORE --unique-key {text}",
    }


def _of_grpc(text: str) -> dict[str, Any]:
    data = bytes.fromhex(text)
    mac, process, seconds, counter = data[1:7], data[7:9], data[9:13], data[13:]
    time = _GRPC_EPOCH + timedelta(seconds=int.from_bytes(seconds, "big"))
    name, number, made = mac.hex(":"), int.from_bytes(counter, "big"), int.from_bytes(process, "big")
    return {
        "type": "message_id",
        "id": text,
        "kind": "unique key (gRPC)",
        "host": name,
        "process_id": made,
        "counter": number,
        "time": f"{time:%Y-%m-%d %H:%M:%S}Z",
        "meaning": f"A client of 5.x on the machine with the hardware address {name}, process {made} (low 16 bits), made its "
        f"message number {number} at {time:%Y-%m-%d %H:%M:%S} UTC. It does not say which broker has it.",
        "next": f"rmqstore query STORE --unique-key {text}",
    }


def _address(data: bytes) -> str:
    address = ipaddress.ip_address(data)
    return str(address) if address.version == 4 else f"[{address}]"
