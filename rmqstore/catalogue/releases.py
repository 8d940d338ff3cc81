"""Texts that several entries share: what a broker of each release does when it meets a bad record, a short queue, a lost index file."""

from __future__ import annotations

ALL = "all"
R49 = "4.9.x"
R50 = "5.0–5.3.1"
R532 = "5.3.2–5.3.3"
R534 = "5.3.4"
R540 = "5.4.0"
R55 = "5.5.x"
R5X = "5.x"
GENERATIONS = (R49, R50, R532, R534, R540, R55)
"""Release ranges that start differently, oldest first; `all` and `5.x` are their unions."""

COPY_FIRST = "Before any broker starts on it, copy commitlog, consumequeue, index, checkpoint and config: a start deletes files. "

SCAN_STOPS = {
    R49: "Clean start: scans the last three files and stops here if this is one of them; after a crash it scans from the newest file "
    "whose first record is older than the checkpoint. Where the scan stops the log ends: every later file is deleted, queues are cut to "
    "that offset. Outside the scan nothing is noticed.",
    R50: "As 4.9.x: last three files after a clean stop, from the checkpoint after a crash; the log is cut here and every later file "
    "deleted.",
    R532: "Clean start: scans only the last file that the queues reach, so older damage is not noticed. After a crash from the file the "
    "checkpoint names. Where the scan stops the log is cut and every later file deleted.",
    R534: "As 5.3.2, and the first record of a file must pass the whole record check before the scan begins there. A start that fails "
    "may also remove `abort`, so the next start counts as clean.",
    R540: "As 5.3.4, but never goes back more than commitLogRecoverMaxNum (10) files; older damage is not read at a start.",
    R55: "As 5.4.0; after a crash the scan begins at the file that holds the checkpoint's logicsPhysicalOffset. The log is cut here and "
    "every later file deleted.",
}
"""Start-up on a record that fails the record check."""

NOT_CHECKED = {
    ALL: "No release compares this at a start or while running; the value is used as stored.",
}
"""Values that the broker's record check does not cover."""

QUEUE_REBUILT = {
    R49: "Dispatches from the highest offset any queue has reached: entries missing at the very end of all queues are added, those of a "
    "queue that is short while others are complete are not. Schedule queue entries written by a start after a crash contain the tag hash "
    "instead of the delivery time.",
    R50: "After a clean stop nothing is dispatched again: the messages stay invisible and their queue offsets are reused for new messages. "
    "After a crash everything from the checkpoint's file on is dispatched again.",
    R532: "After a clean stop only records after the highest offset of all queues are dispatched, and the first of them is skipped: the "
    "queue is then shifted by one. After a crash everything from the checkpoint's file on is dispatched again.",
    R534: "As 5.3.2–5.3.3.",
    R540: "As 5.3.2–5.3.3, looking back at most commitLogRecoverMaxNum (10) files, after a crash as well.",
    R55: "As 5.4.0; after a crash from the file that holds the checkpoint's logicsPhysicalOffset.",
}
"""The fate of records that lack a consume queue entry."""

QUEUE_CUT = {
    ALL: "Recovery reads the last three files of each queue: an entry with offset < 0 or size <= 0 ends the queue there and later files "
    "are deleted. Everything else in an entry is trusted and served as stored.",
}
"""The part of a consume queue that recovery checks."""

LENGTH_FAILS = (
    "`length not matched message store config value, please check it manually`: load fails, the broker does not start. 4.3, 4.4 and 4.9.2 "
    "ignore the file and all later ones (`ignore it`), and start."
)

REBUILD_QUEUES = (
    "With the broker stopped: `rmqstore rebuild-consumequeue STORE` writes the queues from the commit log, as the broker would have "
    "(`--dry-run` only shows the plan, `rmqstore undo STORE` undoes it). If `rmqstore verify` finds damage in the commit log too: "
    "`rmqstore recover STORE`."
)
"""The way to correct queues."""

REBUILD_INDEX = (
    "Queries by key or message id may miss messages, consuming is not affected. With the broker stopped: `rmqstore rebuild-index STORE` "
    "(`--dry-run` only shows the plan, `rmqstore undo STORE` undoes it). If `rmqstore verify` finds damage in the commit log too: "
    "`rmqstore recover STORE`."
)
"""The way to a correct index."""

INDEX_AT_START = {
    ALL: "Index contents are not checked at a start. After a crash every index file whose end time is later than the checkpoint's index "
    "time is deleted, in practice always the newest one, and only records from the scan start on are indexed again "
    "(messageIndexSafe=true avoids it).",
}
"""The effects of a start on index files."""
