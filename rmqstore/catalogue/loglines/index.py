"""Log lines of the index files."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR
from rmqstore.catalogue.logline import Pattern, line
from rmqstore.catalogue.loglines.commands import VERIFY_INDEX

LINES = (
    line(
        "LOG-INDEX-FULL",
        None,
        "Over index file capacity: index count = {count}; index max num = {maximum}",
        "Index file [{file}] is full, trying to create another one",
        "Tried to create index file {count} times",
        "try to create index file, {count} times",
        Pattern("index file full, so create another one, {file}"),
        Pattern("flush index file elapsed time(ms) {text}"),
        Pattern("flush index file eclipse time(ms) {text}"),
        meaning="An index file is full and the next one is created. Normal.",
        then="Writes the index time of the checkpoint and continues.",
        next=VERIFY_INDEX,
    ),
    line(
        "LOG-INDEX-STOPPED",
        ERROR,
        "build index error, stop building index",
        "Mark index file cannot build flag",
        meaning="No further index file could be created: the disk is full, or the directory cannot be written.",
        then="No message is indexed any more until the next start. Queries by key or message id do not find these messages.",
        next=VERIFY_INDEX,
        codes=("RMQ-IX-BEHIND", "RMQ-IX-MISSING"),
    ),
    line(
        "LOG-INDEX-PUT",
        ERROR,
        "putKey error commitlog {physical_offset} uniqkey {key}",
        Pattern("putKey exception, Key: {key} KeyHashCode: {hash}"),
        meaning="A message could not be added to the index.",
        then="Queries by key do not find it. Consuming is not affected.",
        next=VERIFY_INDEX,
        codes=("RMQ-IX-MISSING",),
    ),
    line(
        "LOG-INDEX-READ",
        ERROR,
        Pattern("selectPhyOffset exception{text}"),
        "getLastIndexFile exception",
        "queryMsg exception",
        "queryOffset exception",
        "queryMessage exception",
        meaning="A query by key failed while the index was read: a damaged slot or entry, or a file that was just deleted.",
        then="The query returns what it has found so far.",
        next=VERIFY_INDEX,
        codes=("RMQ-IX-CHAIN", "RMQ-IX-SLOT", "RMQ-IX-ITEM"),
    ),
)
