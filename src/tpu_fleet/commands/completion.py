"""`tpu-fleet completion`: have the shell complete commands, options and names."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
PROGRAM = "tpu-fleet"
VARIABLE = "_TPU_FLEET_COMPLETE"


def script_of(shell: str) -> str:
    """Return the script that makes a shell ask tpu-fleet."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"{shell} is none of {', '.join(SHELLS)}.")
    # What it completes, it learns from the program itself, at each TAB.
    return kind(click.Command(PROGRAM), {}, PROGRAM, VARIABLE).source()


def place_of(shell: str) -> tuple[Path, str]:
    """Return where a person's scripts for a shell are, and how the shell finds them, if it must."""
    data = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    config = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    if shell == "fish":
        return config / "fish/completions" / f"{PROGRAM}.fish", ""
    if shell == "zsh":
        folder = data / "tpu-fleet/zsh"
        line = f"fpath=({folder} $fpath); autoload -Uz compinit; compinit"
        return folder / f"_{PROGRAM}", f"Add this line to ~/.zshrc:\n  {line}"
    path = data / "bash-completion/completions" / PROGRAM
    return path, (
        "bash finds it by the package bash-completion. Without that, add this line to ~/.bashrc:\n"
        f"  source {path}"
    )


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.option("--install", is_flag=True, help="Write it where the shell finds it.")
def completion(shell: str | None, install: bool) -> None:
    """Complete words with the TAB key in bash, zsh or fish.

    Prints the script for the shell; without SHELL, for the one of $SHELL. TAB completes names
    from the last output of status, runs and the other commands, without a connection.

    \b
      tpu-fleet completion --install
      tpu-fleet completion bash > ~/.tpu-fleet.bash
    """
    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS:
        raise click.UsageError(
            f"Name the shell, one of {', '.join(SHELLS)}: tpu-fleet completion bash"
        )
    script = script_of(shell)
    if not install:
        click.echo(script, nl=False)
        return
    path, remark = place_of(shell)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"The script was not written: {error}") from error
    click.echo(f"Wrote {path}. New shells use it.")
    if remark:
        click.echo(remark)
