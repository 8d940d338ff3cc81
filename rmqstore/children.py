"""What processes that are started here get: never the current directory as a place of modules."""

from __future__ import annotations

import os

SAFE_PATH = "PYTHONSAFEPATH"
"""The variable that keeps the current directory off the module path of `python -m`."""
_PLACES = "PYTHONPATH"


def environment(**more: str) -> dict[str, str]:
    """Return the variables of this process for a child, and `more`. What is relative in PYTHONPATH means the current directory too."""
    variables = os.environ | {SAFE_PATH: "1"} | more
    places = [place for place in variables.pop(_PLACES, "").split(os.pathsep) if os.path.isabs(place)]  # noqa: PTH117
    return variables | ({_PLACES: os.pathsep.join(places)} if places else {})
