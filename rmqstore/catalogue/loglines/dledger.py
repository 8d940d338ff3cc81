"""Log lines of DLedger: entries in `dledger-*/data`, their index in `dledger-*/index`, terms and roles.

Source: `DLedgerMmapFileStore`, `MmapFileList`, `DLedgerEntryPusher`, `MemberState` of DLedger 0.2.2 and 0.3.
"""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, WARNING
from rmqstore.catalogue.logline import Pattern, line
from rmqstore.catalogue.loglines.commands import INFO as SHOW
from rmqstore.catalogue.loglines.commands import VERIFY_LOG

LINES = (
    line(
        "LOG-DLEDGER-RECOVER",
        ERROR,
        Pattern("Recover data file failed{text}"),
        Pattern("[code={code},name=DISK_ERROR,desc={text}]{text2}"),
        Pattern("check data file order failed {answer} recovery"),
        Pattern("check index file order failed {answer} recovery"),
        Pattern("Pre check data and index failed {file}"),
        Pattern("Compare data to index failed {file}"),
        "Load file failed, this usually indicates fatal error, you should check it manually",
        Pattern("unknown magic={number}"),
        Pattern("pos={position} size={size} magic={number} index={number2} term={number3}{text}"),
        Pattern("recheck get null entry{text}"),
        Pattern("recheck index {number} != {number2}"),
        Pattern("Write index failed index={number}"),
        Pattern(
            "[BUG]The mappedFile queue's data is damaged, the adjacent mappedFile's offset don't match pre file {previous_file}, {text}"
        ),
        Pattern(
            "{file} {length} length not matched message store config value, please check it manually. You should delete old files before "
            "changing mapped file size",
            {"file": r"[/\\].*?[/\\]\d+"},
        ),
        meaning="DLedger compared an entry of its data with the entry of its index, and they differ, or the entry is damaged: magic, size, "
        "index, term or position (code 414 DISK_ERROR; openmessaging/dledger#285).",
        then="At the first file of the check it goes back a file; in the scan it ends the log there and cuts what follows. If the files "
        "of data or index have a gap, the broker does not start. Entries that a majority of the group has are copied back from the leader.",
        next=VERIFY_LOG,
        codes=("RMQ-CL-DAMAGE", "RMQ-CL-PHYOFFSET"),
        since="4.5",
    ),
    line(
        "LOG-DLEDGER-TRUNCATE",
        WARNING,
        Pattern("[TRUNCATE]leaderId={text} index={number} truncatePos={physical_offset} != maxPos={end_physical_offset}, {text2}"),
        Pattern("[TRUNCATE] rebuild for data wrotePos: {position} != truncatePos: {position2}"),
        Pattern("[TRUNCATE] rebuild for index wrotePos: {position} != truncatePos: {position2}"),
        Pattern("[TRUNCATE] truncate for {answer} file error, {text}"),
        Pattern("[Recovery] rebuild for index wrotePos={position} not equal to truncatePos={position2}"),
        Pattern("[MONITOR]The processOffset is too small, you should check it manually before truncating the data from {physical_offset}"),
        Pattern("[MONITOR]Skip update committed index for new={number} < old={number2}{text}"),
        meaning="This node was the leader and has entries that the group did not commit, or its committed index is larger than its last "
        "entry (openmessaging/dledger#316); PR #333 is about an index that is not rebuilt after the cut.",
        then="Cuts its log to the leader's. Messages of the cut part were not acknowledged by a majority.",
        next=VERIFY_LOG,
        since="4.5",
    ),
    line(
        "LOG-DLEDGER-CHECKPOINT",
        WARNING,
        "Load checkpoint failed",
        "Persist checkpoint failed",
        "Load last term failed",
        "Persist curr term failed",
        Pattern("Recover to get committed index={number} from checkpoint"),
        meaning="DLedger's files `checkpoint` (committed index) or `currterm` (term and vote) could not be read or written.",
        then="Begins with no committed index, or term 0, and learns both from the group; a group of one node needs both.",
        next=SHOW,
        since="4.5",
    ),
    line(
        "LOG-DLEDGER-DISK",
        ERROR,
        Pattern("[code={code},name=DISK_FULL,desc={text}]{text2}"),
        Pattern("Disk is full, {text}"),
        "Append error",
        Pattern("Append error for {file}", {"file": "(?!timer log).*"}),
        Pattern("Append blank error for {file}", {"file": "(?!timer log).*"}),
        Pattern("Create mapped file for {file}"),
        Pattern("Blank {file} should ge {number}"),
        Pattern("[UpdateWherePosition] wherePosition {position} > maxWrotePosition {position2}"),
        meaning="DLedger could not write an entry: disk full, or a file could not be created.",
        then="Refuses messages until there is space.",
        next=SHOW,
        since="4.5",
    ),
    line(
        "LOG-DLEDGER-PUSH",
        WARNING,
        Pattern("[PushFallBehind]The leader pushed an {text}"),
        Pattern("[PushFastForward] ledgerEndIndex={number} entryIndex={number2}"),
        Pattern("[Push-{text}]{text2}"),
        Pattern("[MONITOR]The index {number} has already existed with {text} and curr is {text2}"),
        Pattern("[MONITOR] get old wait at {text}"),
        Pattern("[HandleDo{text}"),
        Pattern("[BUG] [Handle{text}"),
        Pattern("Get null entry from index={number}"),
        meaning="Copying entries between the nodes of the group: slow, repeated, or refused because index or term differ.",
        then="Compares with the follower and sends again; the follower cuts what the leader does not have.",
        next=SHOW,
        since="4.5",
    ),
    line(
        "LOG-DLEDGER-ROLE",
        None,
        Pattern("Handle role change failed term={number} {text}"),
        Pattern("[{text}] currentTerm{number} is not the biggest={number2}, deal with it"),
        Pattern("[{text}] skip to be the leader in term: {number}, but currTerm is: {number2}"),
        Pattern("Vote request time out, {text}"),
        Pattern("HeartBeat request time out, {text}"),
        Pattern("Send {answer} request failed, {text}"),
        Pattern("TakeLeadership {text}"),
        Pattern("[{text}][Handle{text2}"),
        Pattern("preferredLeaderId = {text}"),
        Pattern("transferee fall behind, diff = {number}"),
        Pattern("[HandleLeaderTransfer] term changed, {text}"),
        "Error in heartbeat",
        "heartbeat response failed",
        "vote response failed",
        meaning="Elections and heartbeats of the group.",
        then="A new leader is elected.",
        next=SHOW,
        since="4.5",
    ),
    line(
        "LOG-DLEDGER-SNAPSHOT",
        WARNING,
        Pattern("[DoInstallSnapshot-{text}]{text2}"),
        Pattern("Load snapshot from {file} failed. Start recovering from the previous snapshot"),
        "Failed to load snapshot",
        "Install Snapshot and wait loading failed",
        Pattern("No snapshot for recovering state machine: {text}"),
        "Unable to load data from snapshot into state machine",
        Pattern(
            "Unable to {text} snapshot{text2}", {"text": "clean temp|create|delete temp|remove expired|remove error|write|save|move temp"}
        ),
        "load snapshot data file error",
        "load snapshot metadata error",
        meaning="DLedger of the controller: its state is read from a snapshot. The messages of a broker are not in it.",
        then="Uses the snapshot before.",
        next=SHOW,
        since="5.0",
    ),
)
