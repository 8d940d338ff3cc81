"""The damage table: what verify must say about each named damage, and where.

Each row follows from what the damage does and what the catalogue says a code means. A row lists findings that must be there; a finding may
carry one of several codes where the catalogue gives two readings of the same bytes. Rows without findings are damages that leave a store
which a broker could have written; each says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rmqstore.formats.properties import KEYS, TAGS, UNIQ_KEY, parse_properties
from tests.damage import places
from tests.damage.places import Place, Scene
from tests.support.damages import DAMAGES
from tests.support.storeview import StoreView


@dataclass(frozen=True, slots=True)
class Expected:
    """A finding with one of the codes at the place."""

    codes: tuple[str, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Invisible:
    """Nothing can be found, and why."""

    reason: str


Row = list[Expected]
Expectation = Row | Invisible | Callable[[Scene], Row | Invisible]


def find(codes: str, place: Place) -> Expected:
    """`CL-CRC|CL-TORN`: codes without their common prefix."""
    return Expected(tuple(f"RMQ-{code}" for code in codes.split("|")), place)


def _property_flip(scene: Scene) -> Row | Invisible:
    """A changed property is seen where queue or index were built from it."""
    target = scene.record()
    raw = bytearray(scene.view.read(target.path)[target.fields["properties"].offset : target.end])
    before = parse_properties(raw)
    raw[scene.start() - target.fields["properties"].offset] ^= 1
    after = parse_properties(raw)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    if TAGS in changed:
        return [find("CQ-TAGS", places.unit_of_record)]
    if changed & {KEYS, UNIQ_KEY}:
        return [find("IX-ITEM|IX-MISSING", places.anywhere)]
    return Invisible("nothing is derived from this property, and only a property CRC covers it")


def _last_data_file_missing(scene: Scene) -> Row:
    """The pre-allocated file is new only where the broker had not left one."""
    gap = find("CL-GAP", places.start_of_log_file)
    is_new = scene.operations[1].path not in [file.path for file in scene.view.log_files]
    return [gap, find("CL-PREALLOC", places.file(1))] if is_new else [gap]


NO_RECORD = "CL-DAMAGE|CL-MAGIC|CL-SIZE"
LOST_RECORD = [find(NO_RECORD, places.record), find("CQ-LOST", places.unit_of_record)]
CRC_OF_BODY = [find("CL-CRC", places.record)]
BAD_LENGTHS = [find("CL-LENGTHS", places.record)]
BAD_SIZE = [find("CL-SIZE", places.record)]
BAD_MAGIC = [find("CL-MAGIC", places.record)]
NOT_AT_HOME = [find("CL-PHYOFFSET", places.record)]
WRONG_BLANK = [find("CL-BLANK", places.blank)]
TORN = [find("CL-TORN", places.last_record)]
QUEUE_OFFSET_JUMPS = [
    find("CL-QOFFSET-JUMP|CL-QOFFSET-GAP|CL-QOFFSET-REPEAT|CL-QOFFSET-RESTART", places.record),
    find("CQ-UNIT|CQ-SHIFTED|CQ-SURPLUS", places.unit_of_record),
]
GOES_BACK = [find("CL-TIME|CL-FIELD", places.record_or_next)]
UNIT_OF_ANOTHER_QUEUE = find("CQ-SURPLUS|CQ-UNIT", places.unit_of_record)
FOREIGN = [find("CL-NAME", places.file())]
PREALLOCATED = find("CL-PREALLOC", places.file())
BEHIND = [find("CQ-BEHIND", places.queue)]
CHECKPOINT_OFFSET = [find("CP-OFFSET", places.file())]

TABLE: Mapping[str, Expectation] = {
    "none": Invisible("nothing is done"),
    # one field of one record
    **{f"body-flip-{place}": CRC_OF_BODY for place in ("zero", "first", "early", "mid", "prev", "head", "last", "lastrec")},
    "property-flip-mid": _property_flip,
    "property-flip-last": _property_flip,
    "properties-torn-mid": [find("CL-PROPZERO", places.record)],
    "properties-torn-last": [find("CL-PROPZERO", places.record)],
    "field-totalsize-last": BAD_LENGTHS,
    "field-totalsize-mid": BAD_LENGTHS,
    "field-magic-last": BAD_MAGIC,
    "field-magic-mid": BAD_MAGIC,
    "head-magic": BAD_MAGIC,
    "field-bodycrc-last": CRC_OF_BODY,
    "field-queueid-last": [UNIT_OF_ANOTHER_QUEUE],
    "field-queueid-mid": [UNIT_OF_ANOTHER_QUEUE],
    "queueid-new": [UNIT_OF_ANOTHER_QUEUE, find("CQ-MISSING", places.new_queue(77))],
    "field-flag-last": Invisible("FLAG belongs to the application: every value is valid and nothing is derived from it"),
    "field-queueoffset-last": QUEUE_OFFSET_JUMPS,
    "field-queueoffset-mid": QUEUE_OFFSET_JUMPS,
    "queueoffset-jump": QUEUE_OFFSET_JUMPS,
    "queueoffset-zero": QUEUE_OFFSET_JUMPS,
    "field-physicaloffset-last": NOT_AT_HOME,
    "field-physicaloffset-mid": NOT_AT_HOME,
    "physicaloffset-far": NOT_AT_HOME,
    "physicaloffset-zero": NOT_AT_HOME,
    "head-physicaloffset-future": NOT_AT_HOME,
    "field-sysflag-last": [find("CL-COMPRESSION", places.record)],
    "field-borntimestamp-last": Invisible("one millisecond in the clock of a client"),
    "field-storetimestamp-last": Invisible("one millisecond in the clock of the broker; index items count seconds"),
    "field-bodylen-last": BAD_LENGTHS,
    "field-topiclen-last": BAD_LENGTHS,
    "field-topiclen-mid": BAD_LENGTHS,
    "field-proplen-last": BAD_LENGTHS,
    **{f"totalsize-{how}": BAD_SIZE for how in ("zero", "negative", "huge", "pastfile", "half-gib", "small")},
    **dict.fromkeys(("bodylen-negative", "bodylen-huge", "bodylen-plus1", "proplen-negative", "topiclen-negative"), BAD_LENGTHS),
    "magic-v2": BAD_LENGTHS,
    "sysflag-bornv6": BAD_LENGTHS,
    "sysflag-rollback": [UNIT_OF_ANOTHER_QUEUE],
    "sysflag-prepared": [UNIT_OF_ANOTHER_QUEUE],
    "topic-slash": [find("CL-FIELD", places.record), UNIT_OF_ANOTHER_QUEUE],
    "topic-bad-utf8": [find("CL-FIELD", places.record), UNIT_OF_ANOTHER_QUEUE],
    "head-storetime-zero": GOES_BACK,
    "head-storetime-future": GOES_BACK,
    "headprev-storetime-future": GOES_BACK,
    "storetime-last-ahead": [find("CL-TIME|CL-FIELD|IX-TIME|IX-HEADER|CP-BEHIND", places.anywhere)],
    "record-to-blank-mid": [find("CL-BLANK", places.record)],
    "record-to-blank-last": [find("CL-BLANK", places.record)],
    "record-to-blank-oversize": [find("CL-BLANK", places.record)],
    # ranges
    **{f"zero-200-{place}": LOST_RECORD for place in ("early", "mid", "last")},
    "zero-4k-mid": [find(f"{NO_RECORD}|CL-LENGTHS", places.first_whole_record), find("CQ-LOST", places.unit_of_first_whole_record)],
    "zero-record-mid": [find(NO_RECORD, places.whole_record), find("CQ-LOST", places.unit_of_record)],
    **{f"garbage-300-{place}": [find("CL-LENGTHS|CL-PHYOFFSET|CL-CRC|CL-SIZE", places.record)] for place in ("early", "mid", "last")},
    "garbage-file-mid": [find(NO_RECORD, places.whole_log_file), find("CQ-LOST", places.unit_of_first_record_in_file)],
    "zero-file-mid": [find("CL-ZEROFILE", places.file()), find("CQ-LOST", places.unit_of_first_record_in_file)],
    "zero-file-last": [find("CL-PREALLOC|CL-ZEROFILE", places.file()), find("CQ-BEYOND|CQ-LOST", places.unit_of_first_record_in_file)],
    # the end of the log
    "torn-tail-half": TORN,
    "torn-tail-header": TORN,
    "torn-tail-4": TORN,
    "tail-cut-3": [find("CQ-BEYOND", places.unit_of_record), find("CQ-BEYOND", places.unit_of_last_record)],
    "stale-tail-record": [find("CL-STALE", places.end_of_log)],
    "stale-tail-run": [find("CL-STALE", places.end_of_log)],
    "stale-tail-garbage": [find("CL-TAILBYTES", places.end_of_log)],
    "undispatched-record": [find("CQ-BEHIND", places.queue_of_last_record)],
    "undispatched-two": [find("CQ-BEHIND", places.queue_of_last_record)],
    # BLANK
    "blank-magic": [find("CL-MAGIC|CL-NOBLANK|CL-BLANK", places.blank)],
    "blank-size-small": WRONG_BLANK,
    "blank-size-big": WRONG_BLANK,
    "blank-size-negative": WRONG_BLANK,
    "blank-zero": [find("CL-NOBLANK", places.blank)],
    "blank-to-record-magic": [find("CL-LENGTHS|CL-SIZE|CL-NOBLANK", places.blank)],
    # files of the log
    "file-missing-first": [find("CQ-EXPIRED", places.anywhere)],
    "file-missing-middle": [find("CL-GAP", places.start_of_log_file), find("CQ-LOST", places.unit_of_first_record_in_file)],
    "file-missing-last": [find("CQ-BEYOND", places.unit_of_last_record)],
    "file-missing-lastdata": _last_data_file_missing,
    "file-last-empty": [find("CL-ZEROLEN", places.file())],
    "file-lastdata-empty": [find("CL-ZEROLEN", places.file(-1)), find("CQ-BEYOND|CQ-LOST", places.unit_of_last_record)],
    "file-extra-empty": [find("CL-ZEROLEN", places.file())],
    "file-middle-empty": [find("CL-ZEROLEN", places.file()), find("CQ-LOST", places.unit_of_first_record_in_file)],
    "file-last-short": [find("CL-FILELEN", places.file())],
    "file-middle-long": [find("CL-FILELEN", places.file())],
    "file-extra-zero-1": [PREALLOCATED],
    "file-extra-zero-2": [PREALLOCATED, find("CL-PREALLOC", places.file(1))],
    "file-extra-gap-zero": [find("CL-GAP", places.behind_last_log_file), PREALLOCATED],
    "file-foreign-hidden": FOREIGN,
    "file-foreign-empty-last": FOREIGN,
    "file-foreign-samesize": FOREIGN,
    "file-subdir": [find("ST-FOREIGN|ST-KIND", places.file())],
    "file-last-is-copy": [find("CL-PHYOFFSET|CL-STALE", places.start_of_log_file)],
    "log-emptied": [find("CL-EMPTY", places.anywhere)],
    "log-dir-removed": [find("CL-EMPTY", places.anywhere)],
    # consume queues
    "cq-queue-removed": [find("CQ-MISSING", places.queue)],
    "cq-queue-of-last-removed": [find("CQ-MISSING", places.queue)],
    "cq-topic-removed": [find("CQ-MISSING", places.topic)],
    "cq-all-removed": [find("CQ-MISSING", places.queue_of_last_record)],
    **{f"cq-tail-zero-{count}": BEHIND for count in (1, 2, 5)},
    **{f"cq-other-tail-zero-{count}": BEHIND for count in (1, 3)},
    "cq-all-tails-zero-3": BEHIND,
    "cq-all-behind-half": BEHIND,
    "cq-tail-beyond-log": [find("CQ-BEYOND", places.unit(-1))],
    "cq-tail-far-beyond-log": [find("CQ-BEYOND", places.unit(-1))],
    "cq-tail-duplicate": [find("CQ-SURPLUS|CQ-ORDER|CQ-SHIFTED|CQ-REPEATED", places.unit(-1))],
    "cq-unit-offset": [find("CQ-UNIT", places.unit())],
    "cq-unit-size": [find("CQ-SIZE", places.unit())],
    "cq-unit-tags": [find("CQ-TAGS", places.unit())],
    "cq-unit-huge-offset": [find("CQ-UNIT|CQ-BEYOND", places.unit())],
    "cq-unit-negative-offset": [find("CQ-UNIT", places.unit())],
    "cq-unit-zero": [find("CQ-HOLE", places.unit())],
    "cq-unit-size-zero": [find("CQ-HOLE|CQ-SIZE", places.unit())],
    "cq-hole-first-file": [find("CQ-HOLE", places.unit())],
    "cq-last-file-zeroed": [find("CQ-ZEROFILE", places.file()), find("CQ-BEHIND", places.queue)],
    "cq-extra-zero-file": [find("CQ-ZEROFILE", places.file())],
    "cq-file-first-missing": [find("CQ-GAP|CQ-MISSING", places.queue)],
    "cq-file-middle-missing": [find("CQ-GAP", places.queue)],
    "cq-file-last-missing": BEHIND,
    "cq-file-last-empty": [find("CQ-ZEROLEN", places.file())],
    "cq-file-last-short": [find("CQ-FILELEN", places.file())],
    "cq-file-garbage": [find("CQ-UNIT|CQ-BEYOND|CQ-SIZE", places.unit())],
    "cq-file-bak": [find("CQ-NAME|ST-FOREIGN", places.file())],
    "cq-preblank-only": [find("CQ-PREBLANK-ONLY", places.queue)],
    "cq-ghost-topic": [find("CQ-SURPLUS", places.unit(-1))],
    "cq-odd-entries": [find("CQ-NAME|ST-FOREIGN|ST-KIND", places.file(number)) for number in range(3)],
    "cq-subdir": [find("CQ-NAME", places.file())],
    "cq-queue-negative": [find("CQ-NAME", places.anywhere)],
    "cq-topic-is-file": [find("CQ-MISSING", places.topic)],
    # index
    "index-all-removed": [find("IX-MISSING|IX-INCOMPLETE", places.anywhere)],
    "index-first-removed": [find("IX-INCOMPLETE", places.anywhere)],
    "index-header-garbage": [find("IX-HEADER|IX-COUNT", places.file())],
    "index-slots-garbage": [find("IX-SLOT", places.inside(400))],
    "index-items-garbage": [find("IX-ITEM|IX-CHAIN", places.inside(400))],
    "index-short": [find("IX-FILELEN", places.file())],
    "index-long": [find("IX-FILELEN", places.file())],
    "index-empty": [find("IX-FILELEN", places.file())],
    "index-end-ahead": [find("IX-HEADER", places.file())],
    "index-end-zero": [find("IX-HEADER", places.file())],
    "index-count-zero": [find("IX-COUNT", places.file())],
    "index-count-full": [find("IX-COUNT", places.file())],
    "index-loop": [find("IX-CHAIN", places.file())],
    "index-foreign-name": [find("IX-NAME", places.file())],
    "index-numeric-dir": [find("IX-NAME|ST-KIND", places.file())],
    "index-extra-zero-file": Invisible("an index file without items: a broker creates one at a message without keys"),
    # checkpoint, abort, lock
    "checkpoint-missing": [find("CP-MISSING", places.anywhere)],
    "checkpoint-zero": [find("CP-BEHIND", places.file())],
    "checkpoint-ahead": [find("CP-AHEAD", places.file())],
    "checkpoint-short-20": [find("CP-LENGTH", places.file())],
    "checkpoint-empty": [find("CP-LENGTH", places.file())],
    "checkpoint-garbage": [find("CP-INVALID", places.file())],
    "checkpoint-long": [find("CP-LENGTH", places.file())],
    "checkpoint-directory": [find("ST-KIND", places.file())],
    "checkpoint-one": [find("CP-BEHIND|CP-INVALID", places.file())],
    "checkpoint-index-zero": Invisible("0 means that no full index file was flushed yet"),
    "checkpoint-index-ahead": [find("CP-AHEAD", places.file())],
    "checkpoint-logics-zero": [find("CP-BEHIND", places.file())],
    "checkpoint-confirm-far": CHECKPOINT_OFFSET,
    "checkpoint-logicsphy-zero": Invisible("0 means that the field was never written: before 5.5.0, or no full flush of the queues yet"),
    "checkpoint-logicsphy-half": CHECKPOINT_OFFSET,
    "checkpoint-logicsphy-far": CHECKPOINT_OFFSET,
    "checkpoint-logicsphy-one": CHECKPOINT_OFFSET,
    "abort-is-directory": [find("ST-KIND", places.file())],
    "lock-missing": [find("ST-LOCK", places.anywhere)],
    # combinations whose parts hide each other; all others are the sum of their parts
    "cq-all-removed+file-missing-first": [find("CQ-MISSING", places.queue_of_last_record)],
}


def rows(name: str, view: StoreView) -> list[tuple[Scene, Row | Invisible]]:
    """What to expect of a damage: of a combination the rows of its parts, each with the scene of its own operations."""
    found = []
    for part in [name] if name in TABLE else name.split("+"):
        scene = Scene(view, DAMAGES[part](view))
        entry = TABLE[part]
        found.append((scene, entry(scene) if callable(entry) else entry))
    return found
