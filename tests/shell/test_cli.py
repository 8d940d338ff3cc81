"""The command line as a whole: every ending has its exit status, and none is a traceback."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from rmqstore import __version__, cli
from rmqstore.catalogue.settings import NAMES
from rmqstore.commands import common
from rmqstore.errors import NotAStoreError, RefusedError, RmqstoreError, UsageError
from tests.support import stores
from tests.support.cli import rmqstore
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def with_command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Make `rmqstore trial` run a function."""

    def install(body: Callable[[], None]) -> None:
        monkeypatch.setitem(cli.COMMANDS, "trial", cli.CommandEntry("tests.shell.test_cli", "Only in this test."))
        monkeypatch.setattr(sys.modules[__name__], "command", click.Command("trial", callback=body), raising=False)

    return install


def _raiser(error: BaseException) -> Callable[[], None]:
    def body() -> None:
        raise error

    return body


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("a and b", "only one"), 2),
        (RefusedError("store in use", "stop the broker"), 3),
        (NotAStoreError("no store", "give another path"), 4),
        (RmqstoreError("cannot read", "look at the disk"), 4),
    ],
)
def test_own_errors_end_with_message_hint_and_their_status(
    error: RmqstoreError, status: int, with_command: Callable[[Callable[[], None]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    with_command(_raiser(error))
    assert cli.main(["trial"]) == status
    assert capsys.readouterr().err == f"error: {error.message}\nhint: {error.hint}\n"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(13, "Permission denied", "/x/commitlog"), "error: /x/commitlog: Permission denied\n"),
        (MemoryError(), "error: out of memory\n"),
        (ValueError("first line\nsecond line"), "error: unexpected ValueError: first line\n"),
    ],
)
def test_other_errors_end_with_one_line_and_status_4(
    error: Exception, message: str, with_command: Callable[[Callable[[], None]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    with_command(_raiser(error))
    assert cli.main(["trial"]) == 4
    err = capsys.readouterr().err
    assert err.startswith(message + "hint: ")
    assert "Traceback" not in err


def test_debug_shows_where_an_unexpected_error_came_from(with_command: Callable[[Callable[[], None]], None]) -> None:
    with_command(_raiser(ValueError("deep inside")))
    with pytest.raises(ValueError, match="deep inside"):
        cli.main(["--debug", "trial"])


def test_interruption_says_what_was_covered(with_command: Callable[[Callable[[], None]], None], capsys: pytest.CaptureFixture[str]) -> None:
    def body() -> None:
        common.on_interrupt(lambda: "read 3 of 12 files")
        raise KeyboardInterrupt

    with_command(body)
    assert cli.main(["trial"]) == 130
    assert capsys.readouterr().err == "\ninterrupted: read 3 of 12 files\n"


def test_a_command_chooses_its_status(with_command: Callable[[Callable[[], None]], None]) -> None:
    with_command(lambda: click.get_current_context().exit(1))
    assert cli.main(["trial"]) == 1


def test_a_closed_pipe_is_no_error() -> None:
    shell = f"{sys.executable} -m rmqstore explain --list | head -n 1; echo status ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.splitlines()[-1] == "status 0"
    assert done.stderr == ""


def test_a_pipe_closed_before_the_first_byte_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "rmqstore", "explain", "--list"]
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["verfy"], "did you mean 'verify'?"),
        (["zzz"], f"commands are {', '.join(cli.COMMANDS)}"),
        (["--nonsense"], "No such option"),
        (["explain", "--format", "xml"], "'xml' is not one of"),
    ],
)
def test_usage_mistakes_end_with_2(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    assert said in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"rmqstore {__version__}\n"


def test_every_command_of_the_table_can_be_loaded() -> None:
    context = click.Context(cli.group)
    assert [cli.group.get_command(context, name).name for name in cli.COMMANDS] == list(cli.COMMANDS)  # type: ignore[union-attr]


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from rmqstore.cli import main; assert main(['--help']) == 0; "
        "print('heavy:', sorted({'numpy', 'numba', 'rich', 'pyarrow', 'duckdb', 'pyspark', 'construct', 'crcmod'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.splitlines()[-1] == "heavy: []"


def test_help_costs_less_than_a_quarter_second_of_processor_time() -> None:
    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "rmqstore", "--help"], capture_output=True, check=True, timeout=PATIENCE)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(once() for _ in range(5)) < 0.25


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ([], {}),
        (["--set", "mappedFileSizeCommitLog=8192"], {"mappedFileSizeCommitLog": "8192"}),
        (["--set", "brokerId=1", "--set", "messageDelayLevel=1s 5s=x"], {"brokerId": "1", "messageDelayLevel": "1s 5s=x"}),
    ],
)
def test_settings_are_key_value_pairs(words: list[str], settings: dict[str, str]) -> None:
    seen: dict[str, object] = {}

    @click.command()
    @common.store_argument
    @common.store_options
    @common.broker_version_option
    @common.output_options
    def probe(**options: object) -> None:
        seen.update(options)

    probe.main(["some/store", *words], standalone_mode=False)
    assert seen["settings"] == settings
    assert (seen["store"], seen["broker_conf"], seen["broker_version"]) == (Path("some/store"), None, "auto")
    assert seen["view"] == common.View(format="table", quiet=False, show_progress=True, color="auto")


@pytest.mark.parametrize("words", [["--set", "novalue"], ["--set", "=x"], ["--broker-version", "five"]])
def test_malformed_options_are_usage_errors(words: list[str]) -> None:
    @click.command()
    @common.store_options
    @common.broker_version_option
    def probe(**options: object) -> None:
        raise AssertionError(options)

    with pytest.raises(click.BadParameter):
        probe.main(words, standalone_mode=False)


def test_a_setting_that_no_broker_has_is_refused() -> None:
    store = stores.sample_store("5.3.3-plain")
    for name, known in (("mappedFileSizeComitLog", "mappedFileSizeCommitLog"), ("maxhashslotnum", "maxHashSlotNum")):
        done = rmqstore("info", store, "--set", f"{name}=1048576")
        assert done.status == 2
        assert f"brokers have no setting '{name}'. Did you mean {known}" in done.err
    assert rmqstore("info", store, "--set", "fileReservedTime=48").status == 0


def test_every_setting_that_is_read_is_one_of_brokers() -> None:
    read = set()
    for path in (ROOT / "rmqstore").rglob("*.py"):
        read |= set(re.findall(r'config\.(?:explicit|explicit_integer|integer|flag)\("(\w+)"', path.read_text()))
    assert len(read) > 20
    assert read <= NAMES


@pytest.mark.parametrize("words", [("--quiet", "--debug", "info"), ("info", "--quiet", "--debug"), ("--quiet", "info", "--debug")])
def test_options_before_and_after_the_command(words: tuple[str, ...]) -> None:
    run = rmqstore(*words, stores.sample_store("5.3.3-plain"))
    assert (run.status, run.out) == (0, "STOPPED CLEANLY: no abort file\n")
    assert "\x1b[" in rmqstore("--color", "always", "topics", stores.sample_store("5.3.3-plain")).out


@pytest.mark.parametrize(
    "words", [("--queue", "TopicA/1"), ("--topic", "TopicA", "--queue", "1"), ("--topic", "TopicA", "--queue", "TopicA/1")]
)
def test_a_queue_is_named_alike_everywhere(words: tuple[str, ...]) -> None:
    store = stores.sample_store("5.3.3-plain")
    (queue,) = rmqstore("queues", store, *words, "--json").objects
    assert (queue["topic"], queue["queue_id"]) == ("TopicA", 1)
    found = rmqstore("dump", store, "--part", "commitlog", *words, "--json").objects
    assert len(found) == queue["entries"]


@pytest.mark.parametrize("words", [("--queue", "x"), ("--queue", "/1"), ("--queue", "Other/1", "--topic", "TopicA")])
def test_a_queue_that_is_none(words: tuple[str, ...]) -> None:
    assert rmqstore("queues", stores.sample_store("5.3.3-plain"), *words).status == 2


@pytest.mark.parametrize("command", ["info", "stats", "doctor"])
def test_a_bad_store_does_not_stop_the_others(command: str, tmp_path: Path) -> None:
    run = rmqstore(command, tmp_path / "gone", stores.sample_store("5.3.3-plain"), stores.sample_store("5.3.3-plain-crash"))
    assert run.status == (1 if command == "doctor" else 4)
    assert "no such directory" in run.out + run.err
    assert "5.3.3-plain-crash" in run.out
