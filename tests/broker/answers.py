"""What the harness answers, in the shorter form of the recorded cases (tests/prediction/truth/README.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KEPT = ("loadOk", "startOk", "caughtUp", "dispatchedInLoad", "dispatchedAfterStart", "abortAfterStop", "checkpointAfter")
_PLAIN = ("minPhyOffset", "maxPhyOffset", "flushedWhere", "confirmOffset", "confirmField", "reputFromOffset", "dispatchBehindBytes")
_INDEX = ("name", "beginTimestamp", "endTimestamp", "beginPhyOffset", "endPhyOffset", "hashSlotCount", "indexCount")


def recorded_form(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a recorded case that tell what the broker did."""
    form: dict[str, Any] = {name: answer[name] for name in _KEPT if name in answer}
    form["S1"] = _state(answer["S1"])
    if "S2" in answer:
        form["S2"] = {name: value for name, value in _state(answer["S2"]).items() if value != form["S1"].get(name)}
    form["changed"] = {path: change if isinstance(change, str) else "written" for path, change in answer["changed"].items()}
    return form


def _state(state: Mapping[str, Any]) -> dict[str, Any]:
    queues = {
        f"{topic}/{queue}": [seen["min"], seen["max"], seen["maxPhy"], seen["minLogic"], seen["files"]]
        for topic, of_topic in state["queues"].items()
        for queue, seen in of_topic.items()
    }
    return {
        **{name: state[name] for name in _PLAIN},
        "files": state["commitLogFiles"],
        "queues": {name: queue for name, queue in queues.items() if queue[0] or queue[1] or queue[4]},
        "next": {table: {name: offset for name, offset in offsets.items() if offset} for table, offsets in state["nextOffsets"].items()},
        "index": [[file[column] for column in _INDEX] for file in state["index"]],
    }
