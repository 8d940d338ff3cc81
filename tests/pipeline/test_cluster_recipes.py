"""The recipes of docs/spark.md for workers that do not have the package, run as they are written on a cluster of one worker."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rmqstore.pipeline.spark.find_java import find_java
from tests.pipeline.cluster import CONF, SPARK, cluster, without_session
from tests.pipeline.hadoop import yarn
from tests.support import stores
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")


def blocks(*words: str) -> list[str]:
    """The blocks of shell commands of the page that have all these words."""
    return [block for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) if all(word in block for word in words)]


def shell(directory: Path, lines: str, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-ec", lines],
        cwd=directory,
        env=without_session() | variables,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )


def summary(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def variables() -> dict[str, str]:
    return {
        "PATH": f"{Path(sys.executable).parent}:{SPARK / 'bin'}:{os.environ['PATH']}",
        "JAVA_HOME": str(find_java().parent.parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory where the recipe was run that packs an environment."""
    directory = tmp_path_factory.mktemp("packed")
    [block] = blocks("venv-pack")
    pack, _, _ = block.partition("\n")
    made = shell(directory, pack.replace("install rmqstore", f"install '{ROOT}'"), variables())
    assert made.returncode == 0, made.stderr[-3000:]
    return directory


@pytest.mark.exhaustive  # an environment is made and packed
def test_yarn(packed: Path, tmp_path: Path) -> None:
    root = stores.sample_store("5.3.3-plain")
    [block] = blocks("venv-pack")
    _, _, verify = block.partition("\n")
    with yarn(tmp_path) as conf:
        lines = verify.strip().replace("spark://host:7077", "yarn").replace("/mnt/stores/broker-a", str(root))
        done = shell(packed, f"{lines} {' '.join(CONF)} --format json", variables() | {"HADOOP_CONF_DIR": str(conf)})
    found = summary(done)
    assert (found["verdict"], found["records"], found["engine"]) == ("HEALTHY", 480, "spark")


@pytest.mark.exhaustive
def test_the_packed_environment(packed: Path, tmp_path: Path) -> None:
    root = stores.sample_store("5.3.3-plain")
    [block], [submitted] = blocks("venv-pack"), blocks("spark-submit --master")
    _, _, verify = block.partition("\n")
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    with cluster(tmp_path, ["true"]) as master:

        def here(lines: str) -> str:
            return lines.strip().replace("spark://host:7077", master).replace("/mnt/stores/broker-a", str(root))

        alone = here(verify).replace("./env/bin/python", str(bare / "bin/python")).replace("--spark-conf spark.archives=env.tar.gz#env", "")
        without = shell(packed, f"{alone} {' '.join(CONF)}", variables())
        by_archive = shell(packed, here(verify) + f" {' '.join(CONF)} --format json", variables())
        conf = " ".join(word.replace("--spark-conf", "--conf") for word in CONF)
        submit = here(submitted).replace("spark-submit ", f"spark-submit {conf} ") + " --format json"
        by_submit = shell(packed, submit, variables())

    # Without the archive the worker lacks the package.
    assert without.returncode == 3
    assert "rmqstore" in without.stderr and "Traceback" not in without.stderr
    for done in (by_archive, by_submit):
        found = summary(done)
        assert (found["verdict"], found["records"], found["engine"]) == ("HEALTHY", 480, "spark")
