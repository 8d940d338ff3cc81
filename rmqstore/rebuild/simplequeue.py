"""A consume queue that is being rebuilt: 20-byte units, each at the place of its queue offset (fact sheet queues §2)."""

from __future__ import annotations

import struct

from rmqstore.formats import consumequeue as declared
from rmqstore.formats.javahash import LONG_MAX
from rmqstore.formats.layout import struct_format
from rmqstore.formats.message import MIN_RECORD_SIZE_V1
from rmqstore.rebuild.ext import ExtFiles
from rmqstore.rebuild.kernels_append import DECIDE, FAST
from rmqstore.rebuild.placing import Message
from rmqstore.rebuild.result import History, QueueKind, RebuiltQueue
from rmqstore.rebuild.table import QueueTable
from rmqstore.rebuild.unitfiles import UnitFiles

_pack = struct.Struct(struct_format(declared.UNIT)).pack


class SimpleQueue:
    """One queue. Compiled code appends consecutive records; these are the steps for everything else."""

    def __init__(
        self, topic: str, queue_id: int, files: UnitFiles, file_size: int, ext: ExtFiles | None, table: QueueTable, number: int
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.history = History()
        self.started = False
        self.first_offset = 0
        self._files = files
        self._file_size = file_size
        self._ext = ext
        self._table = table
        self._number = number

    @property
    def next_offset(self) -> int:
        """Return the queue offset of the next consecutive message."""
        return int(self._table.rows["next_offset"][self._number])

    @property
    def max_physic_offset(self) -> int:
        """Return the end of the last message, −1 for none."""
        return int(self._table.rows["max_physic_offset"][self._number])

    def names(self, queue_offset: int) -> bool:
        """Return whether a file can have the name that the queue offset requires."""
        return 0 <= queue_offset <= (LONG_MAX - self._file_size) // declared.UNIT_SIZE

    def can_miss(self, count: int, length: int) -> bool:
        """Return whether `length` bytes of the log can have held that many messages that are lost now."""
        return count * MIN_RECORD_SIZE_V1 <= length

    def begin(self, message: Message, missing: int) -> None:
        """Start the queue. Units for the `missing` messages are copies of the first one; what a file holds before are pre-blanks (§2.4)."""
        self._files.begin(message.queue_offset - missing, declared.PRE_BLANK)
        self._files.fill(self._unit(message), missing)
        self.started = True
        self.first_offset = message.queue_offset
        self.append(message)

    def append(self, message: Message) -> None:
        """Append a message and expect the next one directly after it."""
        self._files.fill(self._unit(message), 1)
        row = self._table.rows[self._number]
        row["max_physic_offset"] = message.physical_offset + message.size
        row["next_offset"] = message.queue_offset + 1

    def bridge(self, queue_offset: int) -> None:
        """Fill the queue up to `queue_offset` with its last unit."""
        place = self._files.end
        self._files.fill(self._files.read(place - 1), queue_offset - place)
        self.expect(queue_offset)

    def cut(self, queue_offset: int) -> None:
        """Remove the messages from `queue_offset` on; the one before it remains."""
        self._files.cut(queue_offset)
        self.expect(queue_offset)

    def hold(self, held: bool) -> None:
        """Set whether the mode decides on the next message even if it is consecutive."""
        self._table.rows["gate"][self._number] = DECIDE if held else FAST

    def expect(self, queue_offset: int) -> None:
        """Set the queue offset of the next consecutive message."""
        self._table.rows["next_offset"][self._number] = queue_offset

    def go_on(self) -> bool:
        """Empty a full buffer; see `UnitFiles`."""
        return self._files.go_on()

    def make_room(self) -> None:
        """Open a new file if the last one is full."""
        self._files.make_room()

    def leave_ext_unit(self, message: Message) -> Message:
        """Write the ext unit of a message; return the message with the tagsCode of its unit. Further queues have none (§2.12)."""
        if self._ext is None or message.further:
            return message
        return message._replace(tags_code=self._ext.put(message.tags_code, message.store_timestamp))

    def finish(self) -> RebuiltQueue:
        """Close the files."""
        end = self._files.end if self.started else 0
        self._files.close()
        if self._ext is not None:
            self._ext.close()
        history = self.history
        return RebuiltQueue(
            self.topic,
            self.queue_id,
            QueueKind.SIMPLE,
            self.first_offset,
            end,
            self.max_physic_offset,
            self._files.paths,
            self._ext.paths if self._ext is not None else (),
            tuple(history.gaps),
            tuple(history.restarts),
            tuple(history.repeated),
            tuple(history.misnumbered),
            history.shifted,
        )

    def _unit(self, message: Message) -> bytes:
        return _pack(message.physical_offset, message.size, message.tags_code)
