"""Detection of a broker that wrote to the log while its start was simulated."""

from __future__ import annotations

from rmqstore.prediction.log.commitlog import OUTSIDE
from rmqstore.prediction.log.record_check import RecordCheck
from rmqstore.prediction.options import Options
from rmqstore.prediction.outcome import Scan
from rmqstore.store.root import Store
from rmqstore.store.window import map_window
from rmqstore.versions import profile_of


def goes_on(store: Store, release: str, scan: Scan) -> bool:
    """Return whether the log now continues where the scan of a start ended: a broker has written those bytes, and what follows, since.

    Call it after the records from that place on were read. Raises StoreChangedError, UnreadableError.
    """
    file = store.reopened().commitlog.find(scan.stop_offset)
    if file is None or scan.stop_reason == OUTSIDE:
        return False
    check = RecordCheck.of_recovery(profile_of(release), Options.of(store.config))
    with map_window(file, 0, file.length) as window:
        return check.at(window.array, scan.stop_offset - file.start).success
