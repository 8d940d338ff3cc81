"""Findings of single records, by their own bytes and their neighbours, without queues and index."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from rmqstore.findings import Finding
from rmqstore.scan.columns import Fault, Oddity, Stop
from rmqstore.scan.walk import Damage
from rmqstore.verify.context import Context

FAULTS: dict[Fault, tuple[str, str]] = {
    Fault.BODY_CRC: ("RMQ-CL-CRC", "the body does not have the CRC that the record stores"),
    Fault.PHYSICAL_OFFSET: ("RMQ-CL-PHYOFFSET", "PHYSICALOFFSET is not the position of the record"),
    Fault.PROPERTY_CRC: ("RMQ-CL-PROPCRC", "the record does not have the CRC that its properties store"),
    Fault.QUEUE_ID: ("RMQ-CL-FIELD", "QUEUEID is negative"),
    Fault.SYS_FLAG: ("RMQ-CL-FIELD", "SYSFLAG has bits that no release writes"),
    Fault.STORE_TIMESTAMP: ("RMQ-CL-FIELD", "STORETIMESTAMP is not a time"),
    Fault.BORN_TIMESTAMP: ("RMQ-CL-FIELD", "BORNTIMESTAMP is not a plausible time"),
    Fault.PREPARED_OFFSET: ("RMQ-CL-FIELD", "PREPAREDTRANSACTIONOFFSET does not fit the transaction type"),
    Fault.TOPIC: ("RMQ-CL-FIELD", "the topic is not a legal name"),
    Fault.COMPRESSION: ("RMQ-CL-COMPRESSION", "SYSFLAG says compressed, the body does not begin like that compression"),
    Fault.DELAY: ("RMQ-CL-FIELD", "DELAY of a schedule message is not a number"),
    Fault.HOST: ("RMQ-CL-FIELD", "the port of BORNHOST or STOREHOST is not a port"),
    Fault.RECONSUME_TIMES: ("RMQ-CL-FIELD", "RECONSUMETIMES is negative"),
    Fault.PROPERTIES: ("RMQ-CL-PROPZERO", "the properties begin or end with zero bytes"),
}

_FIELDS: dict[Fault, str] = {
    Fault.PHYSICAL_OFFSET: "physical_offset",
    Fault.BODY_CRC: "body_crc",
    Fault.QUEUE_ID: "queue_id",
    Fault.SYS_FLAG: "sys_flag",
    Fault.STORE_TIMESTAMP: "store_timestamp",
    Fault.BORN_TIMESTAMP: "born_timestamp",
    Fault.PREPARED_OFFSET: "prepared_transaction_offset",
    Fault.RECONSUME_TIMES: "reconsume_times",
}

DAMAGE_CODES: dict[Stop, str] = {
    Stop.ILLEGAL_MAGIC: "RMQ-CL-MAGIC",
    Stop.SIZE_TOO_SMALL: "RMQ-CL-SIZE",
    Stop.SIZE_BEYOND_FILE: "RMQ-CL-SIZE",
    Stop.BODY_LENGTH: "RMQ-CL-LENGTHS",
    Stop.TOPIC_LENGTH: "RMQ-CL-LENGTHS",
    Stop.PROPERTIES_LENGTH: "RMQ-CL-LENGTHS",
    Stop.SIZE_MISMATCH: "RMQ-CL-LENGTHS",
    Stop.BLANK: "RMQ-CL-BLANK",
    Stop.END_OF_DATA: "RMQ-CL-DAMAGE",
    Stop.TRUNCATED: "RMQ-CL-DAMAGE",
}

DAMAGE_TEXTS: dict[Stop, str] = {
    Stop.ILLEGAL_MAGIC: "no record begins here: illegal magic",
    Stop.SIZE_TOO_SMALL: "TOTALSIZE is below the smallest record",
    Stop.SIZE_BEYOND_FILE: "TOTALSIZE reaches beyond the end of the file",
    Stop.BODY_LENGTH: "BODYLEN does not fit TOTALSIZE",
    Stop.TOPIC_LENGTH: "TOPICLEN does not fit TOTALSIZE",
    Stop.PROPERTIES_LENGTH: "PROPLEN does not fit TOTALSIZE",
    Stop.SIZE_MISMATCH: "TOTALSIZE is not the sum of the lengths",
    Stop.BLANK: "a BLANK whose size is not the rest of the file",
    Stop.END_OF_DATA: "zeros where a record should begin",
    Stop.TRUNCATED: "the file ends inside a record",
}


def fault_findings(
    context: Context, records: npt.NDArray[np.void], topic_of: dict[int, str], moved: npt.NDArray[np.bool_]
) -> Iterator[Finding]:
    """Yield a finding for every fault of every record; that a record of `moved` is not in its place is reported with its run."""
    for row in np.flatnonzero(records["faults"]).tolist():
        record = records[row]
        faults = Fault(int(record["faults"])) & ~(Fault.PHYSICAL_OFFSET if moved[row] else Fault(0))
        for fault, (code, text) in FAULTS.items():
            if fault in faults:
                field = _FIELDS.get(fault)
                expected = int(record["position"]) if fault is Fault.PHYSICAL_OFFSET else None
                yield context.log_finding(
                    code,
                    text,
                    int(record["position"]),
                    int(record["size"]),
                    topic=topic_of[int(record["topic"])],
                    queue_id=int(record["queue_id"]),
                    queue_offset=int(record["queue_offset"]),
                    expected=expected,
                    found=int(record[field]) if field else None,
                )


def damage_findings(context: Context, damage: Damage) -> Finding:
    """Return the finding of a range without records that records follow."""
    length = damage.end - damage.start
    follows = f"up to the next record at {damage.end}" if damage.resumed else "and no record follows in this file"
    file = context.store.message_log.find(damage.start) if damage.reason is Stop.BLANK else None
    return context.log_finding(
        DAMAGE_CODES[damage.reason],
        f"{DAMAGE_TEXTS[damage.reason]}; {length} bytes are unreadable {follows}",
        damage.start,
        length,
        expected=file.end - damage.start if file is not None else None,
        found=damage.claimed_size if damage.reason is not Stop.END_OF_DATA else 0,
    )


_MOST_HOSTS = 100_000
Edge = tuple[int, int, int, int]
"""Physical offset, size, store timestamp and store host of a record that is compared with one of another batch."""
EDGE_DTYPE = np.dtype([("position", np.int64), ("size", np.int64), ("store_timestamp", np.int64), ("store_host", np.uint32)])


class Neighbours:
    """Comparison of each record with the one before and after it: store time that goes back, a store host that differs from both.

    `hosts` counts the records of each store host (up to `_MOST_HOSTS` of them), `odd_hosts` are (physical offset, size, host) of records
    between two others that agree. Copies of older messages keep their host: only one that no other record has is unexpected.
    """

    def __init__(self, context: Context, *, continues: bool = False) -> None:
        """`continues`: others compare the first two records with those before them, and with each other."""
        self._context = context
        self._continues = continues
        self._checked = 0  # records
        self._now = time.time() * 1000
        self.hosts: Counter[int] = Counter()
        self.odd_hosts: list[tuple[int, int, int]] = []
        self.first_records: list[Edge] = []  # two at most, as are the last ones
        self.last_records: list[Edge] = []

    def check(self, records: npt.NDArray[np.void], oddities: Oddity) -> Iterator[Finding]:
        """Yield findings about the records of the next batch, together with the last two of the one before."""
        self._count_hosts(records, oddities)
        if oddities & (Oddity.TIME_GOES_BACK | Oddity.HOST_CHANGES):
            yield from self._look(records)
        if len(self.first_records) < 2:
            self.first_records = [*self.first_records, *_edges(records[:2])][:2]
        self.last_records = [*self.last_records, *_edges(records[-2:])][-2:]
        self._checked += len(records)

    def _look(self, records: npt.NDArray[np.void]) -> Iterator[Finding]:
        before = self.last_records
        times = np.concatenate([[each[2] for each in before], records["store_timestamp"]]).astype(np.int64)
        hosts = np.concatenate([[each[3] for each in before], records["store_host"]]).astype(np.uint32)
        of_others = self._continues and self._checked < 2  # the second record
        for i in (np.flatnonzero(times[1:] < times[:-1]) + 1).tolist():
            if i < len(before) or (of_others and i == 1):
                continue
            if (i > 1 and times[i - 2] <= times[i]) or times[i - 1] > self._now:
                yield self._finding(
                    "RMQ-CL-TIME", "STORETIMESTAMP is greater than that of the next record", records, i - 1, times[i], times[i - 1]
                )
            else:
                yield self._finding(
                    "RMQ-CL-TIME", "STORETIMESTAMP is smaller than that of the record before", records, i, times[i - 1], times[i]
                )
        for i in (np.flatnonzero((hosts[1:-1] != hosts[:-2]) & (hosts[:-2] == hosts[2:])) + 1).tolist():
            self.odd_hosts.append((*self._place(records, i), int(hosts[i])))

    def _count_hosts(self, records: npt.NDArray[np.void], oddities: Oddity) -> None:
        if not oddities & Oddity.HOST_CHANGES:
            self.hosts[int(records["store_host"][0])] += len(records)
        elif len(self.hosts) < _MOST_HOSTS:
            names, counts = np.unique(records["store_host"], return_counts=True)
            self.hosts.update(dict(zip(names.tolist(), counts.tolist(), strict=True)))

    def _finding(self, code: str, text: str, records: npt.NDArray[np.void], number: int, expected: object, found: object) -> Finding:
        """Return a finding about a record; `number` counts from the first carried record."""
        position, size = self._place(records, number)
        evidence = {"expected": None if expected is None else int(str(expected)), "found": None if found is None else int(str(found))}
        return self._context.log_finding(code, text, position, size, **evidence)

    def _place(self, records: npt.NDArray[np.void], number: int) -> tuple[int, int]:
        """Return (physical offset, size) of a record."""
        row = number - len(self.last_records)
        return self.last_records[number][:2] if row < 0 else (int(records["position"][row]), int(records["size"][row]))


def _edges(records: npt.NDArray[np.void]) -> list[Edge]:
    return list(zip(*(records[name].tolist() for name in EDGE_DTYPE.names or ()), strict=True))
