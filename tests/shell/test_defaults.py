"""Defaults of options from the environment and the configuration file, and completion in shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from rmqstore.cli import group, main

STORE = Path(__file__).resolve().parents[2] / "sample-stores" / "5.3.3-plain" / "store"


def test_a_variable_is_the_default_of_an_option(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("RMQSTORE_EXPLAIN_FORMAT", "json")
    assert main(["explain", "CL-CRC"]) == 0
    assert capsys.readouterr().out.startswith("{")
    assert main(["explain", "CL-CRC", "--format", "table"]) == 0
    assert not capsys.readouterr().out.startswith("{")


def test_a_configuration_file_has_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rmqstore").mkdir()
    (tmp_path / "rmqstore" / "config.toml").write_text('[explain]\nformat = "json"\n', encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["explain", "CL-CRC"]) == 0
    assert capsys.readouterr().out.startswith("{")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[explain]\nfromat = 1\n", "'fromat' for explain"),
        ("[recover]\nyes = true\n", "'yes' for recover"),
        ("[nothing]\n", "'nothing', which is not a table of a command"),
        ("format = 1\n", "'format', which is not a table of a command"),
        ("= broken", "cannot be read"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_mistake_in_the_file_is_named(
    text: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.toml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    monkeypatch.setenv("RMQSTORE_CONFIG", str(path))
    assert main(["recover" if "recover" in said else "explain", "CL-CRC"]) == 2
    assert said in capsys.readouterr().err


def test_consent_is_not_taken_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQSTORE_UNDO_YES", "1")
    main(["undo", "--help"])
    command = group.get_command(click.Context(group), "undo")
    assert command is not None
    assert {parameter.envvar for parameter in command.params if "--yes" in parameter.opts} == {None}
    assert "RMQSTORE_UNDO_DEBUG" not in {parameter.envvar for parameter in command.params}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_RMQSTORE_COMPLETE={shell}_complete" in script
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=script, text=True, check=False).returncode == 0


def test_completion_answers_with_commands_and_options() -> None:
    def answer(words: str, word: int) -> str:
        environment = {**os.environ, "_RMQSTORE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(word)}
        command = [sys.executable, "-P", "-c", "from rmqstore.cli import main; main()"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout

    assert "plain,verify" in answer("rmqstore ver", 1)
    assert "plain,--threads" in answer("rmqstore verify --thr", 2)
