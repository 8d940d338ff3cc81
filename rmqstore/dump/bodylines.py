"""Bodies for finished JSON lines: the line that compiled code wrote for each message, with its body before the closing brace."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from rmqstore.dump.bodies import BodyError, decompress, encode
from rmqstore.dump.request import BodyForm
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.record import record_head

# Compiled code writes no record with IPv6 hosts, so all heads have the same length.
_HEAD = fixed_layout(record_head(born_v6=False, store_v6=False))
_SYS_FLAG, _BODY_LENGTH = _HEAD["sys_flag"], _HEAD["body_length"]


def with_bodies(
    lines: bytes, records: memoryview, origin: int, form: BodyForm, unpack: bool, one_by_one: Callable[[int], bytes]
) -> Iterator[tuple[int, bytes]]:
    """Yield (log offset, line with body) of each of `lines`. The record at log offset `origin` begins at `records[0]`.

    `one_by_one` makes the whole line of the record at a log offset, for a body that is not compressed as SYSFLAG says.
    """
    for line in lines.splitlines():
        offset = int(line[line.rindex(b":") + 1 : -1])  # "position", the last field
        at = offset - origin
        start = at + _BODY_LENGTH.end
        body = bytes(records[start : start + int.from_bytes(records[at + _BODY_LENGTH.offset : start], "big")])
        if unpack:
            sys_flag = int.from_bytes(records[at + _SYS_FLAG.offset : at + _SYS_FLAG.end], "big", signed=True)
            try:
                body = decompress(body, sys_flag)
            except BodyError:
                yield offset, one_by_one(offset)
                continue
        text, encoding = encode(body, form)
        quoted = json.dumps(text, ensure_ascii=False) if encoding == BodyForm.TEXT else f'"{text}"'
        yield offset, b'%b,"body":%b,"body_encoding":"%b"}\n' % (line[:-1], quoted.encode(), encoding.encode())
