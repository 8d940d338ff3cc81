"""Queue units as numpy columns, with the types of their declarations."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from construct import Struct

from rmqstore.formats import batchconsumequeue, consumequeue
from rmqstore.formats.layout import core, fixed_layout

UnitArray = npt.NDArray[np.void]


def unit_dtype(struct: Struct) -> np.dtype[np.void]:
    """Structured dtype, big-endian and packed, of a structure of integers."""
    fields = fixed_layout(struct)
    members = {member.name: member for member in struct.subcons}
    return np.dtype([(name, f">{'i' if core(members[name]).fmtstr[-1].islower() else 'u'}{field.width}") for name, field in fields.items()])


UNIT = unit_dtype(consumequeue.UNIT)
BATCH_UNIT = unit_dtype(batchconsumequeue.UNIT)


def valid(units: UnitArray) -> npt.NDArray[np.bool_]:
    """Which units recovery takes for entries (fact sheet queues §2.2, §4.1)."""
    found = (units["physical_offset"] >= 0) & (units["size"] > 0)
    if units.dtype == BATCH_UNIT:
        found &= (units["msg_base_offset"] >= 0) & (units["batch_size"] > 0)
    return found
