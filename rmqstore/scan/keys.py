"""Index keys of a separately decoded record, as the column that compiled code fills for the others."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from rmqstore.formats.index import message_keys
from rmqstore.formats.javahash import index_key_hash
from rmqstore.formats.sysflag import TransactionType, transaction_type
from rmqstore.scan.columns import KEY_DTYPE


def keys_of(topic: str, properties: Mapping[str, str], sys_flag: int, row: int) -> npt.NDArray[np.void]:
    """Return the keys (KEY_DTYPE) of the record in `row`; tag keys are marked, because not every release has them."""
    if transaction_type(sys_flag) is TransactionType.ROLLBACK:
        return np.zeros(0, KEY_DTYPE)
    plain = message_keys(properties, index_tags=False)
    every = message_keys(properties, index_tags=True)
    rows = [(index_key_hash(topic, key), row, number >= len(plain)) for number, key in enumerate(every)]
    return np.array(rows, KEY_DTYPE)
