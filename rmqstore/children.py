"""Environment of child processes: the current directory is never on their module path."""

from __future__ import annotations

import os

SAFE_PATH = "PYTHONSAFEPATH"
"""The variable that keeps the current directory off the module path of `python -m`."""
_PLACES = "PYTHONPATH"


def environment(**more: str) -> dict[str, str]:
    """Return the variables of this process for a child, and `more`. Relative PYTHONPATH entries, and so the current directory, go."""
    variables = os.environ | {SAFE_PATH: "1"} | more
    places = [place for place in variables.pop(_PLACES, "").split(os.pathsep) if os.path.isabs(place)]  # noqa: PTH117
    return variables | ({_PLACES: os.pathsep.join(places)} if places else {})
