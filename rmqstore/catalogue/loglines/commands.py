"""The commands that log lines lead to. STORE, and values of a line in braces, are filled in where they are known."""

from __future__ import annotations

INFO = "rmqstore info STORE"
DOCTOR = "rmqstore doctor STORE"
VERIFY = "rmqstore verify STORE"
VERIFY_LOG = "rmqstore verify STORE --part commitlog"
VERIFY_QUEUES = "rmqstore verify STORE --part consumequeue"
VERIFY_INDEX = "rmqstore verify STORE --part index"
VERIFY_CHECKPOINT = "rmqstore verify STORE --part checkpoint"
VERIFY_TIMER = "rmqstore verify STORE --part timer"
VERIFY_CONFIG = "rmqstore verify STORE --part config"
VERIFY_FILES = "rmqstore verify STORE --quick"
DUMP_HERE = "rmqstore dump STORE --part commitlog --from-offset {physical_offset} --limit 3"
DUMP_QUEUE = "rmqstore dump STORE --part consumequeue --topic {topic} --queue {queue_id} --tail 20"
