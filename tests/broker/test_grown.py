"""What a start may do to the files of a store, and what it may not. No Java is needed for that."""

from __future__ import annotations

import pytest

from tests.broker.append_only import Files, not_appended

ITEMS_AT = 8
LOG, QUEUE, INDEX = "commitlog/00000000000000000000", "consumequeue/T/0/00000000000000000000", "index/20260101000000000"
BEFORE: Files = {LOG: b"rec1\0\0\0\0\0\0\0\0", QUEUE: b"u1\0\0\0\0", INDEX: b"headslot" + b"i1\0\0"}
GROWN: Files = {LOG: b"rec1rec2\0\0\0\0", QUEUE: b"u1u2\0\0", INDEX: b"HEADslOT" + b"i1i2"}


def test_what_is_left_alone_and_what_grows_is_fine() -> None:
    assert list(not_appended(BEFORE, BEFORE, ITEMS_AT)) == []
    assert list(not_appended(BEFORE, {**GROWN, "commitlog/00000000000000000012": bytes(12)}, ITEMS_AT)) == []


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ({**GROWN, LOG: b"rec0rec2\0\0\0\0"}, f"{LOG} is overwritten at 3"),
        ({**GROWN, LOG: b"rec1rec2\0\0\0"}, f"{LOG} has 11 bytes instead of 12"),
        ({**GROWN, QUEUE: b"u2\0\0\0\0"}, f"{QUEUE} is overwritten at 1"),
        ({**GROWN, INDEX: b"HEADslOT" + b"i2\0\0"}, f"{INDEX} is overwritten at 9"),
        ({LOG: GROWN[LOG], INDEX: GROWN[INDEX]}, f"{QUEUE} is gone"),
    ],
)
def test_what_was_there_has_to_stay(after: Files, said: str) -> None:
    assert list(not_appended(BEFORE, after, ITEMS_AT)) == [said]


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ({**BEFORE, QUEUE: GROWN[QUEUE]}, f"{QUEUE} changes"),
        ({**BEFORE, INDEX: GROWN[INDEX]}, f"{INDEX} changes"),
        ({**BEFORE, "index/20260101000000001": bytes(12)}, "index/20260101000000001 appears"),
    ],
)
def test_without_a_longer_log_nothing_grows(after: Files, said: str) -> None:
    assert list(not_appended(BEFORE, after, ITEMS_AT)) == [said]
