"""The machine of the store: free space on its disks and missing volumes, as effects of the findings about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rmqstore.doctor.areas import Area, Effect, Harm, State
from rmqstore.doctor.checks.space import CLEAN_AT, FULL_AT
from rmqstore.findings import Finding


def effects(findings: Sequence[Finding]) -> Iterator[Effect]:
    """Yield the effects of a full disk, and of a directory that is not where the settings say."""
    for finding in findings:
        if finding.code == "RMQ-ST-SPACE":
            if finding.expected in (CLEAN_AT, FULL_AT):
                yield Effect(
                    Area.MACHINE, State.LOSES, f"a disk is {finding.found} % full: the broker deletes the oldest messages", Harm.LOST
                )
            else:
                yield Effect(Area.MACHINE, State.OK, finding.message)
        elif finding.code == "RMQ-ST-PATH":
            text = f"a directory of the log is empty or missing, is its volume mounted? {finding.file}"
            yield Effect(Area.COMMIT_LOG, State.LOSES, text, Harm.NOT_MOUNTED)
