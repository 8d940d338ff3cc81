"""Log lines of the configuration files next to the store."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, WARNING
from rmqstore.catalogue.logline import Pattern, line
from rmqstore.catalogue.loglines.commands import INFO as SHOW
from rmqstore.catalogue.loglines.commands import VERIFY_CONFIG

_PATH = {"file": r"[^/\\\s]*[/\\].*?"}

LINES = (
    line(
        "LOG-CONFIG-BACKUP",
        WARNING,
        Pattern("load {file} failed, and try to load backup file", _PATH),
        meaning="A configuration file cannot be parsed: cut off by a crash or a full disk, or edited by hand.",
        then="Uses its `.bak`, which is one change older. The next write turns the damaged file into the new backup.",
        next=VERIFY_CONFIG,
        codes=("RMQ-CF-JSON", "RMQ-CF-BAK"),
    ),
    line(
        "LOG-CONFIG-FAILED",
        ERROR,
        Pattern("load {file} Failed", _PATH),
        "BrokerController#initialize: unexpected error occurs",
        meaning="Neither a configuration file nor its backup can be parsed, or the timer could not be loaded.",
        then="The broker does not start, and may empty other configuration files (delayOffset.json, consumerFilter.json) while it stops: "
        "copy config first.",
        next=VERIFY_CONFIG,
        codes=("RMQ-CF-JSON", "RMQ-CF-BAK", "RMQ-TM-WHEEL-LENGTH"),
    ),
    line(
        "LOG-CONFIG-INVALID-DELETED",
        WARNING,
        Pattern("load {file} failed, and delete invalid file errr", _PATH),
        meaning="A configuration file that could not be parsed could not be removed either.",
        then="Continues with the backup.",
        next=VERIFY_CONFIG,
        codes=("RMQ-CF-JSON",),
        since="5.3.4",
    ),
    line(
        "LOG-CONFIG-PERSIST",
        ERROR,
        Pattern("persist file {file} exception", _PATH),
        "Failed to persist",
        Pattern("Failed to persist {text}"),
        meaning="A configuration file could not be written: disk full or no permission.",
        then="Continues with the configuration in memory, which is lost when the broker dies.",
        next=VERIFY_CONFIG,
        codes=("RMQ-CF-EMPTY", "RMQ-CF-JSON"),
    ),
    line(
        "LOG-CONFIG-BLOOM",
        None,
        Pattern("Bloom filter is changed!So ignore all filter data persisted! {text}"),
        meaning="The settings of the filter bit map were changed; stored filter data no longer fit.",
        then="Creates new ones.",
        next=SHOW,
    ),
)
