"""The commit log file that recovery begins with (fact sheet commit log §5.1, §5.2, newer releases §3.2, §3.3).

Every rule is a test on one file; the search goes from the last file down and uses the first file if none passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rmqstore.formats.message import MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2
from rmqstore.prediction.blockers import BlockerCode, LoadStopped
from rmqstore.prediction.checkpoint import Checkpoint
from rmqstore.prediction.log.mappedfiles import SimulatedFile
from rmqstore.prediction.log.reader import open_window
from rmqstore.prediction.log.record_check import HEAD_LENGTH, RecordCheck, first_record_header
from rmqstore.prediction.options import Options
from rmqstore.versions import AbnormalStart, NormalStart, Profile

_DEFAULT_RECOVER_MAX_NUM = 10
_THIRD_LAST = 3

Matches = Callable[[SimulatedFile], bool]


@dataclass(frozen=True, slots=True)
class FirstFile:
    """The rules of one release for one start. `max_cq` is the end of the log that the queues know, `limits` are those of parts in
    RocksDB."""

    profile: Profile
    options: Options
    check: RecordCheck
    checkpoint: Checkpoint
    max_cq: int
    queues_in_rocksdb: bool = False
    limits: tuple[int, ...] = ()
    lead: int = 0
    """Bytes before the first record of a file: those of the header of a DLedger entry."""

    def normal(self, files: list[SimulatedFile]) -> int:
        """Return the number of the first file of a normal recovery."""
        match self.profile.normal_start:
            case NormalStart.THIRD_LAST:
                return max(0, len(files) - _THIRD_LAST)
            case NormalStart.NAMED_WITHIN_QUEUES:
                return self._search(files, lambda file: file.start <= self.max_cq, last_tested=1)
            case NormalStart.FIRST_RECORD:
                return self._search(files, lambda file: self._first_record_matches(file, normally=True), last_tested=1)

    def abnormal(self, files: list[SimulatedFile]) -> int:
        """Return the number of the first file of a crash recovery."""
        if self.profile.abnormal_start is AbnormalStart.HEADER_TIME:
            return self._search(files, self._header_matches, last_tested=0)
        return self._search(files, lambda file: self._first_record_matches(file, normally=False), last_tested=0)

    def _search(self, files: list[SimulatedFile], matches: Matches, *, last_tested: int) -> int:
        left = self.options.commit_log_recover_max_num
        left = left if left > 0 else _DEFAULT_RECOVER_MAX_NUM
        for number in range(len(files) - 1, last_tested - 1, -1):
            left -= 1
            if matches(files[number]) or (self.profile.limits_search and left <= 0):
                return number
        return 0

    def _header_matches(self, file: SimulatedFile) -> bool:
        """Test a file up to 5.3.3: fields of the first bytes are used unchecked; only MAGICCODE has to be one of a record."""
        if file.length < HEAD_LENGTH:
            raise LoadStopped(BlockerCode.FILE_LENGTH, "load exception: the file is too short for a record", file.path)
        first = first_record_header(file.read(self.lead, HEAD_LENGTH), ipv6_hosts=self.profile.ipv6_hosts)
        if first.magic != MESSAGE_MAGIC_V1 and not (first.magic == MESSAGE_MAGIC_V2 and self.profile.reads_v2):
            return False
        if self.queues_in_rocksdb:
            return first.physical_offset <= self.max_cq
        if first.store_timestamp == 0:
            return False
        limit = self.checkpoint.min_timestamp_index if self._index_has_to_hold else self.checkpoint.min_timestamp
        return first.store_timestamp <= limit

    def _first_record_matches(self, file: SimulatedFile, *, normally: bool) -> bool:
        """Test a file from 5.3.4 on: it has to begin with a record, whose fields are compared."""
        with open_window(file, file.length) as window:
            found = self.check.at(window.array, self.lead)
        if found.request is None or found.request.store_timestamp == 0:
            return False
        store_timestamp, phy_offset = found.request.store_timestamp, found.request.physical_offset
        values = self.checkpoint.values
        if self._index_has_to_hold and store_timestamp > values["index_msg_timestamp"]:
            return False
        if any(phy_offset > limit for limit in self.limits):
            return False
        if normally or self.queues_in_rocksdb:
            return phy_offset <= self.max_cq
        if self.profile.abnormal_start is AbnormalStart.CHECKED_TIME:
            return store_timestamp <= self.checkpoint.min_timestamp
        if values["logics_physical_offset"] > 0:
            return phy_offset <= values["logics_physical_offset"]
        return store_timestamp <= values["logics_msg_timestamp"]

    @property
    def _index_has_to_hold(self) -> bool:
        return self.options.message_index_enable and self.options.message_index_safe
