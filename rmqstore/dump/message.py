"""One record as a JSON object: the slow and certain of the two ways to the text of a message (the fast one: `rmqstore.scan.jsonl`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rmqstore.dump.bodies import BodyError, decompress, encode
from rmqstore.dump.request import BodyForm
from rmqstore.formats.record import Record
from rmqstore.jsonschema import SCHEMA, with_schema

MESSAGE_FIELDS = (
    "physical_offset",
    "size",
    "magic",
    "body_crc",
    "queue_id",
    "flag",
    "queue_offset",
    "sys_flag",
    "born_timestamp",
    "born_host",
    "store_timestamp",
    "store_host",
    "reconsume_times",
    "prepared_transaction_offset",
    "body_length",
    "topic",
    "properties",
    "tags",
    "keys",
    "unique_key",
    "offset_message_id",
)


def json_line(value: Mapping[str, Any]) -> bytes:
    """Return an object with the version of its schema as a line of JSON, UTF-8; a lone surrogate is written as its escape."""
    return (json.dumps(with_schema(value), ensure_ascii=False, separators=(",", ":")) + "\n").encode("utf-8", "backslashreplace")


def message_object(
    record: Record, position: int, delay_levels: Sequence[int], body: BodyForm = BodyForm.NONE, unpack: bool = False
) -> dict[str, Any]:
    """Return a record found at the log offset `position`, with consistent lengths. It has `faults` only if something is wrong with it."""
    value: dict[str, Any] = {"type": "message", "schema": SCHEMA}
    for name in MESSAGE_FIELDS:
        value[name] = getattr(record, name)
    value["tags_code"] = record.tags_code(delay_levels)
    value["position"] = position
    faults = []
    if not record.body_crc_matches:
        faults.append("body_crc")
    if record.physical_offset != position:
        faults.append("physical_offset")
    if value["tags_code"] is None:
        faults.append("delay")
    if body is not BodyForm.NONE:
        data = record.body
        if unpack:
            try:
                data = decompress(data, record.sys_flag)
            except BodyError:
                faults.append("compression")
        value["body"], value["body_encoding"] = encode(data, body)
    if faults:
        value["faults"] = faults
    return value
