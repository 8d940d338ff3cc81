"""A store and the same one behind a URI: what commands print for both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.cli import rmqstore

_QUERY = "select topic, queue_id, count(*) n, sum(size) bytes from messages group by 1, 2 order by 1, 2"


def assert_the_same_results(root: Path, uri: str, *options: str) -> None:
    """Compare `verify`, `stats` and `sql`."""

    def both(*words: str) -> list[list[dict[str, Any]]]:
        runs = [rmqstore(words[0], place, *words[1:], "--format", "json", *options) for place in (root, uri)]
        assert [(run.status, run.err) for run in runs] == [(0, "")] * 2
        return [run.objects for run in runs]

    here, far = ({name: found[-1][name] for name in ("verdict", "codes", "records", "queues", "indexed_keys")} for found in both("verify"))
    assert far == here
    here, far = (found[:-1] for found in both("stats"))
    assert far == here
    here, far = both("sql", _QUERY)
    assert far == here
