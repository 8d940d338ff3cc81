"""Masters that cannot be reached are one sentence, at once."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rmqstore.errors import RefusedError
from rmqstore.pipeline.spark.configuration import has_log_settings
from rmqstore.pipeline.spark.failures import with_cause
from rmqstore.pipeline.spark.masters import require_master
from tests.pipeline.cluster import without_session
from tests.support.stores import sample_store
from tests.support.waiting import PATIENCE


@pytest.fixture
def closed() -> str:
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the configuration of Hadoop, without Spark's."""
    for name in ("YARN_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    return tmp_path


def site(directory: Path, **properties: str) -> None:
    said = "".join(
        f"<property><name>yarn.resourcemanager.{name.replace('_', '.')}</name><value>{value}</value></property>"
        for name, value in properties.items()
    )
    (directory / "yarn-site.xml").write_text(f"<configuration>{said}</configuration>")


def test_a_command_ends(closed: str) -> None:
    command = [sys.executable, "-P", "-m", "rmqstore", "stats", sample_store("5.3.3-plain"), "--master", f"spark://{closed}"]
    done = subprocess.run(command, env=without_session(), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 3
    assert f"error: The master of Spark cannot be reached ({closed}: Connection refused).\n" in done.stderr


def test_one_of_several_masters_is_enough(closed: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        require_master(f"spark://{closed},127.0.0.1:{server.getsockname()[1]}")
    with pytest.raises(RefusedError, match="no port"):
        require_master("spark://host")


def test_yarn_without_configuration(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR")
    with pytest.raises(RefusedError, match="neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set"):
        require_master("yarn")
    monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
    (conf / "spark-env.sh").write_text("HADOOP_CONF_DIR=/etc/hadoop\n")
    require_master("yarn")


def test_the_resource_manager_of_yarn(conf: Path, closed: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        site(conf, address=f"127.0.0.1:{server.getsockname()[1]}")
        require_master("yarn")
    site(conf, address=closed)
    with pytest.raises(RefusedError) as caught:
        require_master("yarn")
    assert caught.value.message == f"The resource manager of YARN cannot be reached ({closed}: Connection refused)."
    site(conf, hostname="no-such-host.invalid")
    with pytest.raises(RefusedError, match=r"no-such-host\.invalid:8032"):
        require_master("yarn")


@pytest.mark.parametrize("properties", [{}, {"address": "${env.manager}:8032"}, {"address": "127.0.0.1:1", "ha_enabled": "true"}])
def test_what_only_hadoop_can_read(conf: Path, properties: dict[str, str]) -> None:
    site(conf, **properties)
    require_master("yarn")


def test_a_broken_file(conf: Path) -> None:
    (conf / "yarn-site.xml").write_text("<configuration>")
    require_master("yarn")


def test_the_cause_of_a_client_that_says_nothing() -> None:
    text = (
        "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
        ": io.fabric8.kubernetes.client.KubernetesClientException: An error has occurred.\n\tat a.b(C.java:1)\n"
        "Caused by: java.io.IOException: Connection refused: /127.0.0.1:6443\n\tat a.b(C.java:1)\n"
        "Caused by: java.net.ConnectException: Connection refused\n"
    )
    assert with_cause(text) == "An error has occurred (Connection refused: /127.0.0.1:6443)"


def test_who_says_what_spark_logs(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not has_log_settings()
    monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
    (conf / "spark-defaults.conf").write_bytes(b"spark.app.name caf\xe9\n")
    assert not has_log_settings()
    (conf / "spark-defaults.conf").write_text("spark.log.level INFO\n")
    assert has_log_settings()
    (conf / "spark-defaults.conf").unlink()
    (conf / "log4j2.properties").write_text("")
    assert has_log_settings()
