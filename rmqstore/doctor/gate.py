"""The gate of an upgrade: one object for each store, which passes only if all of the store was judged and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rmqstore.doctor.areas import State
from rmqstore.doctor.diagnosis import Diagnosis
from rmqstore.errors import RmqstoreError
from rmqstore.findings import Severity
from rmqstore.jsonschema import SCHEMA
from rmqstore.store.root import Store
from rmqstore.verify.context import Options
from rmqstore.verify.engine import Verification


def gate(store: Store, diagnosis: Diagnosis, *, deep: bool) -> dict[str, Any]:
    """Return the decision about a store as JSON shows it (docs/json.md).

    `deep`: the whole store is verified as well, and errors of that do not pass. Raises UnreadableError, StoreChangedError.
    """
    said = diagnosis.as_json()
    reasons = [f"{area.area}: {area.reason}" for area in diagnosis.verdict.areas if area.state is not State.OK]
    not_checked = list(said["not_checked"])
    errors = None
    if deep:
        verification = Verification(store, Options())
        errors = sum(finding.severity is Severity.ERROR for finding in verification.run())
        if errors:
            reasons.append(f"verify: {errors} errors")
        known = {one["area"] for one in not_checked}
        not_checked += [{"area": one.area, "reason": one.reason} for one in verification.totals.not_checked if one.area not in known]
    return {
        "type": "gate",
        "schema": SCHEMA,
        "store": str(store.root),
        "pass": diagnosis.nothing_lost and not errors and not not_checked,
        "class": said["class"],
        "headline": said["headline"],
        "release": diagnosis.release,
        "starts": diagnosis.starts,
        "areas": said["areas"],
        "reasons": reasons,
        "assumed": said["assumed"],
        "not_checked": not_checked,
        "log_read": deep,
        "errors": errors,
        "next": diagnosis.next,
    }


def refused(store: Path | str, error: RmqstoreError) -> dict[str, Any]:
    """Return the decision about a store that could not be judged."""
    return {
        "type": "gate",
        "schema": SCHEMA,
        "store": str(store),
        "pass": False,
        "class": "NOT SURE",
        "headline": f"NOT SURE: {error.message}",
        "release": None,
        "starts": None,
        "areas": [],
        "reasons": [error.message],
        "assumed": [],
        "not_checked": [{"area": "store", "reason": error.message}],
        "log_read": False,
        "errors": None,
        "next": error.hint,
    }
