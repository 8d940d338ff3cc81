"""The log of a running broker as a stream of Spark: each message once, the last ones after the broker has stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.spark.find_java import find_java
from tests.broker.busy import RELEASES, SIZES, BusyBroker
from tests.broker.toolchain import WHOLE, JarsMissing, missing, prepared
from tests.pipeline.reading import rows_of
from tests.support.waiting import PATIENCE

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"whole brokers cannot run here: {missing()}"),
]
# A process of its own, which runs a stream, prints the number of rows of each batch and goes on until a line comes.
CODE = """
import json
import sys
import time
from pyspark.sql import SparkSession

root, out, settings = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
options = {"columns": "position, topic", "settings": settings}
stream = spark.readStream.format("rocketmq").options(**options).load(root)
writer = stream.writeStream.format("parquet").option("checkpointLocation", out + "/checkpoint")
query = writer.trigger(processingTime="500 milliseconds").start(out + "/rows")
while query.lastProgress is None and query.isActive:
    time.sleep(0.1)
if query.exception() is not None:
    raise query.exception()
print("running", flush=True)
sys.stdin.readline()
query.processAllAvailable()
query.stop()
print("batches", query.lastProgress.batchId, flush=True)
rows = spark.read.schema("position bigint, topic string").parquet(out + "/rows").select("position").collect()
print(json.dumps(sorted(row[0] for row in rows)), flush=True)
"""


@pytest.mark.sampled(0)  # a whole broker runs for half a minute
@pytest.mark.limited(1)
@pytest.mark.parametrize("release", RELEASES)
def test_every_message_once(release: str, tmp_path: Path) -> None:
    try:
        prepared(release, WHOLE)
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of a broker {release}: {error}")
    root = tmp_path / "store"
    root.mkdir()
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")}
    variables |= {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(find_java().parent.parent)}
    variables["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
    with BusyBroker(release, root, tmp_path / "scratch", rate=500, seed=1) as broker:
        broker.wait_for(100_000)
        command = [sys.executable, "-c", CODE, str(root), str(tmp_path / "out"), json.dumps(dict(SIZES))]
        stream = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=variables, text=True)
        assert stream.stdout is not None
        if stream.stdout.readline() != "running\n":
            pytest.fail(stream.communicate()[1][-3000:])
        broker.wait_for(broker.acknowledged()[-1]["physicalOffset"] + 500_000)
    printed, _ = stream.communicate("\n", timeout=PATIENCE)

    batches, positions = printed.splitlines()
    every = [row["position"] for row in rows_of("messages", StoreAt.of(root, settings=dict(SIZES)))]
    assert json.loads(positions) == every != []
    assert int(batches.partition(" ")[2]) >= 1
