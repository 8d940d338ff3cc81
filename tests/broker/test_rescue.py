"""Every configuration file and its `.bak` are overwritten: after `recover` a whole broker starts and serves every topic that has queues."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqstore.formats.naming import is_broker_topic
from rmqstore.verify.parts import config
from tests.broker.toolchain import WHOLE, JarsMissing, missing, prepared
from tests.broker.whole_broker import RELEASES
from tests.broker.whole_start import Asked, start
from tests.support import stores
from tests.support.cli import rmqstore
from tests.support.storeview import StoreView

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"whole brokers cannot run here: {missing()}"),
]


@pytest.mark.limited(1)
@pytest.mark.sampled(0)  # a whole broker runs for more than a minute
@pytest.mark.parametrize("base", ["broker-4.9.7-lmq-crash", "broker-5.3.3-cqext-crash", "broker-5.5.1-crash"])
def test_a_broker_without_any_configuration_left_serves_its_topics(base: str, tmp_path: Path) -> None:
    release = RELEASES[stores.case(base).release]
    try:
        prepared(release, WHOLE)
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of a broker {release}: {error}")
    root = stores.fresh_store(base, tmp_path)
    settings = dict(stores.case(base).settings(root))
    options = [text for name, value in settings.items() for text in ("--set", f"{name}={value}")]
    view = StoreView(root, settings)
    for name in config.TABLES:
        for path in (root / "config" / name, root / "config" / f"{name}.bak"):
            if path.exists():
                path.write_bytes(b"\xa5\x00\x13" * 50)
    assert rmqstore("doctor", root, "--format", "json", *options).objects[-1]["class"] == "DOES NOT START"

    recovered = rmqstore("recover", root, "--yes", "--format", "json", "--broker-version", release, *options)

    assert recovered.status == 0, recovered.err
    verdict = rmqstore("doctor", root, "--format", "json", "--broker-version", release, *options).objects[-1]
    assert verdict["starts"] and verdict["next"].startswith("Start the broker")  # offsets of consumers are gone
    # Compacted topics are not served as they were stored.
    queues = [key for key in view.queues if not is_broker_topic(key[0]) and not (root / "compaction" / "compactionLog" / key[0]).is_dir()]
    stored = {(topic, int(queue_id)): len(view.units((topic, queue_id))) for topic, queue_id in queues}
    end = view.end
    asked = Asked(queues=[f"{topic}/{queue_id}" for topic, queue_id in queues])
    served = start(release, root, settings, asked, tmp_path / "broker")
    assert served.caught_up and not served.refused and not served.hidden
    below = served.below(end).units  # after it a broker writes what falls due
    assert {queue: len(places) for queue, places in below.items()} == stored
