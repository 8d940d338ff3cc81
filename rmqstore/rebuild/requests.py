"""The input of the dispatchers from a batch of records: damaged ones are removed, text that is no UTF-8 is read as Java reads it.

Source: fact sheet queues §1 (DispatchRequest), commit log §3 (what makes a record one).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from rmqstore.formats import properties as names
from rmqstore.formats.javahash import java_hash
from rmqstore.rebuild.settings import Mode
from rmqstore.scan.columns import Fault, Mark, select
from rmqstore.scan.keys import keys_of
from rmqstore.scan.walk import Batch

QueueOf = Callable[[int], tuple[str, int]]
"""(topic, queue id) of a number in the column `queue`: `LogScanner.queue`."""

# A broker dispatches a record whatever its body's CRC is; a rebuild must not point at a broken one.
_REFUSED = {
    Mode.FAITHFUL: Fault.DELAY,
    Mode.USEFUL: Fault.DELAY | Fault.BODY_CRC | Fault.PROPERTY_CRC | Fault.PHYSICAL_OFFSET,
}


def requests_of(batch: Batch, mode: Mode, queue_of: QueueOf) -> tuple[Batch, int]:
    """Return (the batch for the dispatchers, number of removed records). The batch itself is not changed."""
    refused = 0
    if batch.faults & _REFUSED[mode]:
        kept = _kept(batch.records, _REFUSED[mode])
        refused = len(kept) - int(np.count_nonzero(kept))
        if refused:
            records, keys = select(batch.records, batch.keys, kept)
            batch = replace(batch, records=records, keys=keys)
    if batch.marks & Mark.MALFORMED_TEXT:
        batch = _decoded(batch, queue_of)
    return batch, refused


def _kept(records: npt.NDArray[np.void], refused: Fault) -> npt.NDArray[np.bool_]:
    faults = records["faults"] & int(refused)
    # Brokers do not check the CRC of an empty body.
    faults[records["body_length"] == 0] &= ~np.uint32(Fault.BODY_CRC)
    kept: npt.NDArray[np.bool_] = faults == 0
    return kept


def _decoded(batch: Batch, queue_of: QueueOf) -> Batch:
    """Return the batch with tags and keys of malformed text as Java reads them."""
    records = batch.records.copy()
    rows = np.flatnonzero(records["marks"] & int(Mark.MALFORMED_TEXT))
    keys = [batch.keys[~np.isin(batch.keys["record"], rows)]]
    for row in rows.tolist():
        properties = batch.properties(row)
        if not records["marks"][row] & int(Mark.SCHEDULED):
            records["tags_code"][row] = java_hash(properties.get(names.TAGS, ""))
        if len(batch.keys):
            keys.append(keys_of(queue_of(int(records["queue"][row]))[0], properties, int(records["sys_flag"][row]), row))
    merged = np.concatenate(keys)
    return replace(batch, records=records, keys=merged[np.argsort(merged["record"], kind="stable")])
