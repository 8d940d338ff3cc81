"""Stores in an object store, a server of S3 on this machine: the same results, and only the ranges that are needed."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from moto.moto_server import threaded_moto_server
from moto.server import ThreadedMotoServer
from pyarrow import fs

from rmqstore.diff import logs
from rmqstore.doctor.checks import space
from rmqstore.errors import UnreadableError
from rmqstore.pipeline import fetching, remote, verify
from rmqstore.pipeline.export.attempt import PieceDone
from rmqstore.pipeline.export.job import ExportJob
from rmqstore.pipeline.export.objects import ObjectDestination
from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.local import LocalRunner
from rmqstore.pipeline.publish import NotWrittenError
from rmqstore.pipeline.rebuild.jobs import DistributedRebuild
from rmqstore.pipeline.spark.runner import SparkRunner
from rmqstore.pipeline.tables.message_parts import wanted_pieces
from rmqstore.pipeline.tables.messages import TABLE
from rmqstore.pipeline.tables.selection import Condition, Selection
from rmqstore.reading.progress import silent
from rmqstore.rebuild import Mode
from rmqstore.shellwords import quoted
from rmqstore.spark import register
from rmqstore.store.root import Store
from rmqstore.store.window import read_at
from rmqstore.verify.context import Options
from tests.pipeline.cluster import without_session
from tests.pipeline.exporting import lines_of, request
from tests.pipeline.test_rebuild import made as rebuilt
from tests.support import stores
from tests.support.builder import StoreBuilder
from tests.support.cli import rmqstore
from tests.support.waiting import PATIENCE
from tests.verify.one_check import patch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = ("5.3.3-plain-crash", "broker-5.5.1-crash", "broker-5.3.3-dledger-clean", "4.9.8-cqext")


@dataclass(slots=True)
class Traffic:
    """What clients asked the server for: requests by method, and the bytes of the answers to GET."""

    requests: Counter[str] = field(default_factory=Counter)
    sent: int = 0

    def around(self, application: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
        """A WSGI application that counts what another one answers."""

        def counting(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            answer = list(application(environ, start_response))
            self.requests[environ["REQUEST_METHOD"]] += 1
            if environ["REQUEST_METHOD"] == "GET":
                self.sent += sum(map(len, answer))
            return answer

        return counting


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket of the server."""

    address: str
    traffic: Traffic

    @property
    def files(self) -> fs.S3FileSystem:
        return fs.S3FileSystem(endpoint_override=self.address, scheme="http", region="us-east-1", allow_bucket_creation=True)

    def uri(self, name: str) -> str:
        return f"s3://bucket/{name}?scheme=http&endpoint_override={self.address}&region=us-east-1"

    def put(self, root: Path, name: str) -> str:
        """Upload a store; its URI."""
        fs.copy_files(str(root), f"bucket/{name}", source_filesystem=fs.LocalFileSystem(), destination_filesystem=self.files)
        return self.uri(name)

    def data(self, name: str) -> dict[str, bytes]:
        """The objects below a name."""
        there = self.files
        found = [info.path for info in there.get_file_info(fs.FileSelector(f"bucket/{name}", recursive=True)) if info.is_file]
        return {path.removeprefix(f"bucket/{name}/"): there.open_input_stream(path).read() for path in found}

    def content(self, name: str) -> dict[str, str]:
        """Their digests, as `stores.content` has them of a directory."""
        return {path: hashlib.sha256(data).hexdigest() for path, data in self.data(name).items()}


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        traffic, make = Traffic(), threaded_moto_server.make_server

        def counted(host: str, port: int, app: Callable[..., Iterable[bytes]], *rest: Any, **options: Any) -> Any:
            return make(host, port, traffic.around(app), *rest, **options)

        patch.setattr(threaded_moto_server, "make_server", counted)
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        made = Bucket(f"{host}:{port}", traffic)
        made.files.create_dir("bucket")
        yield made
        server.stop()


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file of a sample is fetched by range."""
    monkeypatch.setattr(fetching, "_SMALL", 100)
    monkeypatch.setattr(fetching, "_RANGE", 3000)


def _told(one: dict[str, Any], at: object) -> dict[str, Any]:
    """An object without the place of the store and what depends on it or on time."""
    value = "STORE" if one.get("value") == str(at) else one.get("value")
    apart = {"store", "stores", "bytes_per_second", "mend", "seconds", "engine_because", "value", "next", "root"}
    return {name: cell for name, cell in one.items() if name not in apart} | {"value": value}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.usefixtures("small_ranges")
def test_results_are_those_of_the_store_itself(name: str, bucket: Bucket, tmp_path: Path) -> None:
    # A copy of its own: `info` names other processes that read a store, such as other tests.
    root, settings = stores.fresh_store(name, tmp_path / "store"), stores.case(name).set_options(stores.sample_store(name))
    uri = bucket.put(root, name)
    statement = "select topic, queue_id, count(*) n, sum(size) bytes from messages group by all order by all"
    for words in (
        ("verify", "STORE", "--format", "json"),
        ("verify", "STORE", "--format", "json", "--part", "commitlog"),
        ("stats", "STORE", "--format", "json"),
        ("sql", "STORE", statement, "--format", "json"),
        ("sql", "STORE", "select * from consumequeue order by file, position", "--format", "json"),
        ("sql", "STORE", "select * from index order by file, position", "--format", "json"),
    ):
        here, there = (
            rmqstore(*(str(at) if word == "STORE" else word for word in words), "--engine", "local", *settings) for at in (root, uri)
        )
        assert (there.status, there.crashed) == (here.status, False), there.err
        assert [_told(one, uri) for one in there.objects] == [_told(one, root) for one in here.objects], words
    for words in (("info",), ("dump",), ("dump", "--part", "index"), ("query", "--queue", "TopicTest/0@0..5")):
        here, there = (rmqstore(words[0], at, *words[1:], "--format", "json", *settings) for at in (root, uri))
        assert (there.status, there.crashed) == (here.status, False), there.err
        sizes = re.compile(r'"allocated":\d+')
        assert sizes.sub("", there.out.replace(uri, "STORE")) == sizes.sub("", here.out.replace(str(root), "STORE")), words
    for number, at in enumerate((root, uri)):
        assert rmqstore("export", at, tmp_path / str(number), "--engine", "local", "--quiet", *settings).status == 0
    files = [{path.name: path.read_bytes() for path in (tmp_path / str(number)).glob("*.jsonl")} for number in range(2)]
    assert files[0] == files[1] != {}


@pytest.mark.limited(3)
@pytest.mark.sampled(2)
@pytest.mark.parametrize("damage", [False, True])
@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.usefixtures("small_ranges")
def test_commands_that_only_read_say_the_same_of_a_uri(
    name: str, damage: bool, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, settings = stores.fresh_store(name, tmp_path / "store"), stores.case(name).set_options(stores.sample_store(name))
    if damage:
        log = min((root / ("commitlog" if (root / "commitlog").is_dir() else "dledger-n0/data")).iterdir())
        patch(log, 9000, b"\xff" * 200)
    uri = bucket.put(root, f"{name}-{damage}")
    set_space(monkeypatch, percent=1)
    for words in (
        *(
            ("doctor",),
            ("doctor", "--gate", "--deep"),
            ("predict",),
            ("recover", "--dry-run"),
            ("recover", "--dry-run", "--strategy", "salvage"),
        ),
        *(("queues",), ("topics",), ("groups",), ("timers",), ("pending",)),
    ):
        for form in (("--format", "json"), ()) if words[-1] in ("doctor", "predict") else (("--format", "json"),):
            here, there = (rmqstore(words[0], at, *words[1:], *form, *settings) for at in (root, uri))
            assert (there.status, there.crashed) == (here.status, False), (words, there.err)
            assert _placeless(there.out, uri) == _placeless(here.out, str(root)), words
            assert "rmqstore-" not in there.out + there.err


def _placeless(text: str, place: str) -> str:
    """Output without the name of the store, times of files in the object store, and sizes on the disk."""
    text = re.sub(rf"(?m)^machine +ok +{re.escape(space.UNKNOWN)}\n", "", text)
    text = text.replace(quoted(place), "STORE").replace(place, "STORE").replace(space.UNKNOWN, "")
    return re.sub(r'"(allocated|created|id|plan_id|seconds|mtime_ns|fingerprint)":[^,}]*', "", text)


def set_space(monkeypatch: pytest.MonkeyPatch, percent: int) -> None:
    """Let every disk be used to so many percent."""
    monkeypatch.setattr(space, "space_at", lambda path: space.Space(path, percent << 40, (100 - percent) << 40))


def test_the_disk_of_this_machine_is_not_that_of_the_broker(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    root = stores.sample_store("broker-5.5.1-crash")
    uri, settings = bucket.put(root, "disk"), stores.case("broker-5.5.1-crash").set_options(root)
    set_space(monkeypatch, percent=95)

    here, there = (rmqstore("doctor", at, "--format", "json", *settings).objects for at in (root, uri))

    codes = [{one.get("code") for one in objects} for objects in (here, there)]
    assert codes[0] - codes[1] == {"RMQ-ST-SPACE"}
    machine = [next(area for one in objects for area in one.get("areas", ()) if area["area"] == "machine") for objects in (here, there)]
    assert [area["state"] for area in machine] == ["loses or repeats", "ok"]
    assert machine[1]["reason"] == space.UNKNOWN


def test_a_uri_is_never_repaired(bucket: Bucket) -> None:
    uri = bucket.uri("5.3.3-plain-crash")
    for words in ((), ("--yes",), ("--dry-run", "--plan-out", "plan.json")):
        run = rmqstore("recover", uri, *words)
        assert (run.status, run.crashed) == (2, False)
        assert "is a URI" in run.err and "Copy the store" in run.err


MORE = ("--set", f"mappedFileSizeCommitLog={8 << 20}")
STATEMENT = "select sum(size) from messages where physical_offset < 1000"


@pytest.mark.parametrize(
    ("words", "most_bytes", "most_requests"),
    [
        # One message of 1 MiB begins before offset 1000; listings, and files that are fetched whole, come on top.
        (("export", "STORE", "OUT", "--to-offset", "1000"), 8 << 20, 40),
        (("sql", "STORE", STATEMENT), 16 << 20, 40),
        (("query", "STORE", "--physical-offset", "0"), 4 << 20, 25),
        (("stats", "STORE"), 41 << 20, 60),
        (("verify", "STORE"), 41 << 20, 60),
    ],
)
def test_bytes_and_requests_are_few(words: tuple[str, ...], most_bytes: int, most_requests: int, bucket: Bucket, tmp_path: Path) -> None:
    """The log has 40 MiB in five files, each byte of which at most comes once, in requests of up to 8 MiB."""
    builder = StoreBuilder(tmp_path / "store", log_file_size=8 << 20)
    for _ in range(35):
        builder.message("TopicA", b"x" * (1 << 20))
    uri = bucket.put(builder.build(), "large")
    engine = () if words[0] == "query" else ("--engine", "local")
    bucket.traffic.requests.clear()
    bucket.traffic.sent = 0

    done = rmqstore(
        *(uri if word == "STORE" else str(tmp_path / "out") if word == "OUT" else word for word in words),
        *("--set", f"mappedFileSizeCommitLog={8 << 20}", *engine),
    )

    assert done.status == 0, done.err
    assert 0 < bucket.traffic.sent <= most_bytes
    assert set(bucket.traffic.requests) == {"GET", "HEAD"}
    assert bucket.traffic.requests.total() <= most_requests


def test_a_store_is_compared_with_its_copy_by_range(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = StoreBuilder(tmp_path / "store", log_file_size=8 << 20)
    for number in range(35):
        builder.message("TopicA", bytes([number]) * (1 << 20))
    root = builder.build()
    uri = bucket.put(root, "copy")
    monkeypatch.setattr(logs, "SMALL", 1 << 20)
    found = []
    for words, most in (((), 12 << 20), (("--deep",), 41 << 20), (("--deep", "--engine", "spark"), 60 << 20)):
        bucket.traffic.sent = 0
        done = rmqstore("diff", root, uri, *words, *MORE, "--format", "json")
        assert done.status == 0, done.err
        found.append(done.objects[0])
        assert 0 < bucket.traffic.sent <= most

    assert [one["relation"] for one in found] == ["same"] * 3
    assert found[1] == found[2]
    assert found[0]["compared_bytes"] < 6 << 20 < 35 << 20 < found[1]["compared_bytes"]


def test_messages_of_a_topic_are_found_through_its_queue(bucket: Bucket, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store", log_file_size=8 << 20)
    for number in range(280):
        is_rare = number % 128 == 5
        time = builder.store_timestamp + 60_000
        builder.message("Rare" if is_rare else "Common", b"x" * (10 if is_rare else 1 << 17), store_timestamp=time)
    uri = bucket.put(builder.stop().build(), "derived")
    at = StoreAt.of(uri, None, builder.settings)
    wanted = Selection(("position", "body"), {"topic": Condition(among=frozenset({"Rare"}))}, derived=True)
    bucket.traffic.sent = 0

    rows = [row for part in TABLE.parts(at, wanted) for batch in TABLE.read(part, wanted, silent) for row in batch.to_pylist()]

    assert [row["body"] for row in rows] == [b"x" * 10] * 3
    assert 0 < bucket.traffic.sent <= 12 << 20


@pytest.mark.parametrize(
    "words", [("export", "OUT", "--to-offset", "1000"), ("sql", STATEMENT, "--format", "json"), ("stats", "--format", "json")]
)
def test_workers_of_spark_fetch_what_they_need(words: tuple[str, ...], bucket: Bucket, tmp_path: Path) -> None:
    """No process has a whole copy: each worker reads ranges itself, and nothing is left of them."""
    builder = StoreBuilder(tmp_path / "store", log_file_size=8 << 20)
    for number in range(35):
        builder.message("TopicA", bytes([number]) * (1 << 20))
    root = builder.build()
    uri = bucket.put(root, f"spark-{words[0]}")
    bucket.traffic.requests.clear()
    bucket.traffic.sent = 0
    (tmp_path / "tmp").mkdir()

    def run(at: object, out: str) -> subprocess.CompletedProcess[str]:
        rest = (str(tmp_path / out) if word == "OUT" else word for word in words[1:])
        return subprocess.run(
            [*(sys.executable, "-P", "-m", "rmqstore", words[0], str(at)), *rest, "--engine", "spark", *MORE],
            env=without_session() | {"TMPDIR": str(tmp_path / "tmp")},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    there = run(uri, "there")
    sent = bucket.traffic.sent
    here = run(root, "here")

    assert (there.returncode, here.returncode) == (0, 0), there.stderr
    if words[0] == "export":
        assert lines_of(tmp_path / "there") == lines_of(tmp_path / "here") != b""
    else:
        told = [[_told(json.loads(line), at) for line in done.stdout.splitlines()] for done, at in ((there, uri), (here, root))]
        assert told[0] == told[1]
    # The command and each of two workers read the ends of the log; a worker whose copy exceeds some size frees it.
    assert 0 < sent <= {"export": 16, "sql": 16, "stats": 56}[words[0]] << 20
    assert not list((tmp_path / "tmp").rglob("commitlog"))


@pytest.mark.parametrize("name", ["5.3.3-plain-crash", "broker-5.5.1-crash"])
def test_a_large_store_is_verified_by_file(name: str, bucket: Bucket, session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    root = stores.sample_store(name)
    settings = stores.case(name).settings(root)
    uri = bucket.put(root, f"by-file-{name}").replace("s3://", "s3://testing:testing@")
    monkeypatch.setattr(verify, "LARGE_STORE", 0)

    here, there, on_spark = (
        next(verify.reports(runner, [StoreAt.of(at, settings=settings)], Options(), 10_000, silent))
        for runner, at in ((LocalRunner(2), root), (LocalRunner(2), uri), (SparkRunner(session.sparkContext), uri))
    )

    fetching.remove_copies()
    assert there.counts == on_spark.counts == here.counts
    assert there.totals.records == on_spark.totals.records == here.totals.records > 0
    texts = [sorted((one.code, one.file, one.position, one.message) for one in report.findings) for report in (here, there, on_spark)]
    assert texts[0] == texts[1] == texts[2]


def test_the_data_source_reads_uris(bucket: Bucket, session: SparkSession) -> None:
    """Two stores of a fleet, which other ones replace between two queries: workers do not keep the older state."""
    register(session)
    for name in ("source/a-1", "source/a-2"):
        bucket.put(stores.sample_store("5.3.3-plain"), name)
    uri = bucket.uri("source/a-*").replace("s3://", "s3://testing:testing@")

    frame = session.read.format("rocketmq").load(uri)
    counted = {row["store"].partition("?")[0].rpartition("/")[2]: row["count"] for row in frame.groupBy("store").count().collect()}
    units = session.read.format("rocketmq").option("table", "consumequeue").load(uri).count()
    queues = session.read.format("rocketmq").option("table", "queues").load(uri).count()

    alone = stores.sample_store("5.3.3-plain")
    assert counted == {"a-1": 480, "a-2": 480}
    assert units == 2 * session.read.format("rocketmq").option("table", "consumequeue").load(str(alone)).count() > 0
    assert queues == 2 * session.read.format("rocketmq").option("table", "queues").load(str(alone)).count() > 0

    for name in ("source/a-1", "source/a-2"):
        bucket.put(stores.sample_store("5.5.1-plain"), name)
    more = session.read.format("rocketmq").load(uri).count()
    assert more == 2 * session.read.format("rocketmq").load(str(stores.sample_store("5.5.1-plain"))).count()


def test_wildcards_of_a_uri(bucket: Bucket) -> None:
    for name in ("fleet/a-1", "fleet/a-2", "fleet/b-1"):
        bucket.put(stores.sample_store("5.3.3-plain"), name)

    two = rmqstore("stats", bucket.uri("fleet/a-*"), "--format", "json", "--engine", "local")
    every = rmqstore("verify", bucket.uri("f*t/?-[12]"), "--format", "json", "--engine", "local")
    none = rmqstore("stats", bucket.uri("fleet/c-*"))

    assert two.status == every.status == 0, two.err + every.err
    assert [one["value"] for one in two.objects if one.get("dimension") == "store"] == [bucket.uri("fleet/a-1"), bucket.uri("fleet/a-2")]
    assert every.objects[-1]["records"] == 3 * 480
    assert (none.status, none.crashed) == (2, False) and "No directory matches" in none.err


def test_a_file_that_vanishes_is_an_error(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "_SMALL", 100)
    uri = bucket.put(stores.sample_store("5.3.3-plain"), "vanishing")
    with remote.at_hand(StoreAt.of(uri), by_range=True) as here:
        bucket.files.delete_dir_contents("bucket/vanishing/commitlog")
        store = here.open()
        with pytest.raises(UnreadableError, match="could not be read"):
            read_at(store.message_log.files[0], 0, 100)


def test_a_rebuild_leaves_its_files_in_a_bucket(bucket: Bucket, tmp_path: Path) -> None:
    root = stores.fresh_store("5.3.3-plain-crash", tmp_path / "store")
    expected = rmqstore("rebuild-consumequeue", root, "--dry-run", "--format", "json").objects
    at, before = StoreAt.of(root), bucket.traffic.requests["PUT"]
    rebuilder = DistributedRebuild(LocalRunner(2), at, largest=50_000, work_directory=bucket.uri("work"))
    assert rebuilt(at, tmp_path / "there", rebuilder, Mode.USEFUL) == rebuilt(at, tmp_path / "here", None, Mode.USEFUL)
    assert bucket.traffic.requests["PUT"] > before + 5
    assert bucket.data("work") == {}
    assert rmqstore("rebuild-consumequeue", root, "--dry-run", "--format", "json").objects == expected


def test_a_work_directory_without_a_bucket_is_refused(bucket: Bucket, tmp_path: Path) -> None:
    at = StoreAt.of(stores.fresh_store("5.3.3-plain-crash", tmp_path / "store"))
    uri = bucket.uri("work").replace("//bucket", "//no-such-bucket")
    with pytest.raises(NotWrittenError) as caught:
        rebuilt(at, tmp_path / "there", DistributedRebuild(LocalRunner(2), at, work_directory=uri), Mode.USEFUL)
    assert "no-such-bucket" in caught.value.message


def test_no_such_bucket(bucket: Bucket) -> None:
    run = rmqstore("stats", f"s3://nothing/store?scheme=http&endpoint_override={bucket.address}&region=us-east-1")

    assert (run.status, run.crashed) == (4, False)
    assert "error: " in run.err and "hint: " in run.err


@pytest.mark.parametrize("options", [("--format", "jsonl"), ("--format", "parquet", "--partition-by", "topic"), ("--engine", "spark")])
def test_an_export_to_a_uri_has_the_files_of_an_export_to_a_directory(options: tuple[str, ...], bucket: Bucket, tmp_path: Path) -> None:
    root, name = stores.sample_store("5.3.3-plain"), f"out-{options[1]}"

    # Workers of an earlier test may run without the credentials of this one, and the server stores the frames of what has no signature.
    run = rmqstore("export", root, bucket.uri(name).replace("s3://", "s3://testing:testing@"), *options)
    rmqstore("export", root, tmp_path / "out", *options)

    assert (run.status, run.crashed) == (0, False), run.err
    assert "EXPORTED" in run.err
    expected = {path: data for path, data in stores.content(tmp_path / "out").items() if path != "_manifest"}
    found = bucket.content(name)
    assert {path: data for path, data in found.items() if not path.startswith(("_manifest", "_pieces/"))} == expected
    assert "_SUCCESS" in found and len(expected) > 1


def test_an_export_to_a_uri_is_continued(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, place = stores.sample_store("5.3.3-plain"), bucket.uri("continued")
    wanted = request("jsonl")
    pieces = wanted_pieces(StoreAt.of(root), wanted.conditions, largest=40_000)
    assert len(pieces) > 3

    def exported(most: int) -> int:
        with ObjectDestination(place, Store.open(root), wanted, pieces) as destination:
            missing = destination.missing(pieces)
            job = ExportJob(missing[:most], wanted, place, "run")
            for _, data in LocalRunner(1).run(job, silent):
                destination.publish(PieceDone.unpack(data))
            if most >= len(missing):
                destination.finish()
        return len(missing)

    assert exported(2) == len(pieces)
    assert "_SUCCESS" not in bucket.content("continued")
    assert exported(len(pieces)) == len(pieces) - 2
    assert exported(len(pieces)) == 0
    rmqstore("export", root, tmp_path / "out")
    data = bucket.data("continued")
    assert b"".join(data[path] for path in sorted(data) if path.endswith(".jsonl")) == lines_of(tmp_path / "out")

    other = rmqstore("export", root, place, "--columns", "topic")
    assert (other.status, other.crashed) == (3, False) and "holds another export" in other.err
    assert bucket.data("continued") == data


def test_an_output_with_other_files_or_without_a_bucket_is_refused(bucket: Bucket) -> None:
    root = stores.sample_store("5.3.3-plain")
    bucket.put(root, "taken")
    before = bucket.content("taken")
    run = rmqstore("export", root, bucket.uri("taken"))
    assert (run.status, run.crashed) == (3, False) and "contains other files" in run.err
    assert bucket.content("taken") == before
    for wrong in (bucket.uri("x").replace("bucket/", "nothing/"), "ftp://host/out"):
        run = rmqstore("export", root, wrong)
        assert run.status in (2, 4) and not run.crashed
        assert "error: " in run.err and "hint: " in run.err


def test_an_export_to_a_uri_of_another_file_system(tmp_path: Path) -> None:
    root = stores.sample_store("5.3.3-plain")
    run = rmqstore("export", root, (tmp_path / "there" / "out").as_uri())
    rmqstore("export", root, tmp_path / "here")
    assert run.status == 0, run.err
    there = stores.content(tmp_path / "there" / "out")
    here = stores.content(tmp_path / "here")
    records = {f"_pieces/{name[5:10]}.json" for name in here if name.startswith("part-")}
    assert there.keys() == here.keys() | records and records
    assert {name: there[name] for name in here if name != "_manifest"} == {name: here[name] for name in here if name != "_manifest"}


@pytest.mark.usefixtures("small_ranges")
def test_databases_are_whole_for_the_process_that_reads_them() -> None:
    root = stores.sample_store("broker-5.5.1-rocksdb-clean")
    settings = stores.case("broker-5.5.1-rocksdb-clean").set_options(root)

    run = rmqstore("verify", root.as_uri(), "--format", "json", "--engine", "local", *settings)

    assert (run.status, run.objects[-1]["verdict"]) == (0, "HEALTHY")
