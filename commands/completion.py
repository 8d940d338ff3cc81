"""`rmqstore completion`: the script by which a shell completes commands and options."""

from __future__ import annotations

import click

_VARIABLE = "_RMQSTORE_COMPLETE"


@click.command("completion", short_help="Print the script by which bash, zsh or fish complete commands and options.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script by which a shell completes the commands, options and values of rmqstore.

    \b
    bash   rmqstore completion bash > ~/.local/share/bash-completion/completions/rmqstore
    zsh    rmqstore completion zsh > "${fpath[1]}/_rmqstore"
    fish   rmqstore completion fish > ~/.config/fish/completions/rmqstore.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, f"click completes for {shell}"
    completion = kind(context.find_root().command, {}, "rmqstore", _VARIABLE)
    click.echo(kind.source_template % completion.source_vars())
