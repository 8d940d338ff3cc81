"""Whether a store without any configuration file must have had one, so that all of it is lost.

Only the message store of 4.x writes configuration without a broker: delayOffset.json, ten seconds after a start and at a clean stop, so
a store of 4.x without any file in config/ lost that directory. Brokers add MSG_REGION to the messages that clients of 5.x send, and the
message store alone does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from rmqstore.doctor.checks.configfiles import ConfigFiles
from rmqstore.doctor.checks.lastrun import LastRun
from rmqstore.errors import RmqstoreError
from rmqstore.store.kinds.writer import WriterGuess
from rmqstore.verify.context import Context
from rmqstore.versions import release_key

_FIRST_5 = "5.0.0"
_REGION = "MSG_REGION"
_RECORDS = 64
"""Records that are looked at, of different queues."""


def with_evidence(files: ConfigFiles, context: Context, run: LastRun, writer: WriterGuess | None, records: Iterable[int]) -> ConfigFiles:
    """Return the configuration as that of a whole broker where the rest of the store shows that it must have had one.

    `records`: physical offsets of records of different queues.
    """
    if files.whole_broker or files.in_rocksdb:
        return files
    lost = not files.present and _written_by_4(writer) and (run.stopped_cleanly(used=False) or run.took_long)
    return replace(files, whole_broker=True) if lost or _sent_to_a_broker(context, records) else files


def _written_by_4(writer: WriterGuess | None) -> bool:
    return writer is not None and writer.implementation is None and release_key(writer.highest) < release_key(_FIRST_5)


def _sent_to_a_broker(context: Context, records: Iterable[int]) -> bool:
    try:
        found = (context.record_at(offset) for offset in islice(records, _RECORDS))
        return any(record is not None and _REGION in record.properties for record in found)
    except RmqstoreError:
        return False
