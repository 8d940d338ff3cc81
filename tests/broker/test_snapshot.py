"""Copies of the store of a busy broker: each verifies, and the real start serves everything acknowledged before the copy was begun."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.beside import STORE_RELEASES, started
from tests.broker.busy import RELEASES, SIZES, BusyBroker
from tests.broker.toolchain import WHOLE, JarsMissing, missing, prepared
from tests.support.cli import rmqstore

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"whole brokers cannot run here: {missing()}"),
]
_RUNS = 3


@pytest.mark.limited(1)
@pytest.mark.sampled(0)  # a whole broker runs for more than a minute
@pytest.mark.parametrize("release", RELEASES)
def test_copies_of_the_store_of_a_busy_broker(release: str, tmp_path: Path) -> None:
    try:
        assert list(copies(release, tmp_path, _RUNS)) == []
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of a broker {release}: {error}")


def copies(release: str, directory: Path, runs: int) -> Generator[str, None, None]:
    """What is wrong with so many copies."""
    prepared(release, WHOLE)
    root, store_release = directory / "store", STORE_RELEASES.get(release, release)
    root.mkdir()
    sizes = [f"--set={name}={value}" for name, value in SIZES.items()]
    before: list[list[dict[str, Any]]] = []
    with BusyBroker(release, root, directory / "scratch", rate=500, seed=1) as broker:
        for number in range(runs):
            broker.wait_for((number + 1) * 300_000)
            before.append(broker.acknowledged())
            run = rmqstore("snapshot", root, directory / f"copy-{number}", "--broker-version", store_release, "--format", "json", *sizes)
            if run.status:
                yield f"snapshot {number} ends with {run.status}: {run.err} {[one['notes'] + [one['errors']] for one in run.objects]}"
    for number, acknowledged in enumerate(before):
        copy = directory / f"copy-{number}"
        verified = rmqstore("verify", copy, "--allow-unchecked", *sizes)
        if verified.status:
            yield f"verify of copy {number} ends with {verified.status}: {verified.out}"
        # What a start writes into config/ is not a matter of the copy.
        said = started(store_release, copy, directory / f"started-{number}", acknowledged)
        yield from (problem for problem in said if "'changed:config'" not in problem)
