"""`tpu-fleet init`: create the files of a first fleet in a dialogue."""

from __future__ import annotations

import io
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.notices import notices

from ..begin import look
from ..begin.answers import COLUMNS, Answers, data_of
from ..begin.files import EDITOR, files_of, in_the_way, write_all
from ..contract.exits import Exit
from .dialogue import BACK, HELP, Back, WrongAnswer, tell, wrapped
from .interview import Interview
from .options import NewFolder

GITHUB = "https://api.github.com"
GREETING = (
    "This writes the files of a fleet into a new folder, in four steps and about three minutes. It "
    "reads what is there (gcloud's settings, your public ssh keys, the project's TPU nodes) and "
    "creates or changes nothing in the project. No file is written before you have seen it and "
    "agreed.\n\n"
    "  Enter   takes the answer in [brackets]\n"
    f"  {HELP}       explains a question\n"
    f"  {BACK}       goes back to the previous answer\n"
    "  Ctrl-C  leaves, and nothing is written"
)


def is_person() -> bool:
    """Return whether the input is a terminal, where questions can be answered."""
    return sys.stdin.isatty()


def next_steps(folder: Path, answers: Answers) -> list[tuple[str, str]]:
    """Return the commands that come next, and what each is for."""
    local = bool(answers.endpoint)
    steps = [] if folder.resolve() == Path.cwd() else [(f"cd {shlex.quote(str(folder))}", "")]
    if local:
        from .cloud import ENDPOINT

        port = urlsplit(answers.endpoint).port
        option = "" if port == urlsplit(ENDPOINT).port else f" --port {port}"
        steps += [
            (f"tpu-fleet cloud up --install{option}", "the local cloud with machines, as root"),
            ("tpu-fleet cloud delays all=0.5", "half a second for what takes minutes"),
        ]
    else:
        steps += _login(answers.project)
    steps += [
        ("tpu-fleet plan", "show what would be done"),
        ("tpu-fleet apply", f"create, set up, train{_cost(answers)}"),
        ("tpu-fleet top", "slices and runs, live; q leaves it"),
        ("tpu-fleet page", "the same as a page for the browser"),
        (f"tpu-fleet slice delete {answers.slice}", "delete the slice"),
    ]
    if local:
        steps.append(("tpu-fleet cloud down", "remove the local cloud"))
    return steps


def lines_of(steps: Sequence[tuple[str, str]]) -> list[str]:
    """Return commands with what they are for behind them, or above where that is too long."""
    short = [step for step, about in steps if about and len(step) + len(about) + 6 <= COLUMNS]
    column = max(map(len, short), default=0)
    lines = []
    for step, about in steps:
        line = f"  {step:{column}}  # {about}" if about else f"  {step}"
        fits = not about or len(line) <= COLUMNS
        lines += [line] if fits else [wrapped(f"  # {about}"), f"  {step}"]
    return lines


def _login(project: str) -> list[tuple[str, str]]:
    """Return the commands that prepare this computer and the project."""
    login = [
        ("gcloud auth login --update-adc", "log gcloud and programs in"),
        (f"gcloud config set project {project}", ""),
        (f"gcloud auth application-default set-quota-project {project}", ""),
    ]
    return [
        *([] if look.has_credentials(os.environ) else login),
        ("tpu-fleet project setup --only apis", "enable the TPU API, if it is not"),
        ("tpu-fleet doctor", "check login, API and billing"),
    ]


def _cost(answers: Answers) -> str:
    """Return what begins to cost money, for those who read nothing else."""
    if answers.endpoint:
        return ""
    if answers.ends:
        return f"; chips of a free grant cost nothing until {answers.ends}"
    return "; slices cost money unless a free grant covers them"


@click.command()
@click.argument("folder", required=False, type=NewFolder())
@click.option("--local", is_flag=True, help="For the local cloud, with a default for every answer.")
@click.option("--project", metavar="ID", help="The Google Cloud project.")
@click.option(
    "--owner", metavar="LABEL", help="Label of the fleet's resources.  [default: managed]"
)
@click.option("--grant", metavar="KIND", help="mail, typed (zone, type, count), or unrestricted.")
@click.option(
    "--grant-mail",
    type=click.File(errors="replace"),
    metavar="FILE",
    help="File with the grant mail; - is the standard input.",
)
@click.option(
    "--line", type=click.IntRange(1), metavar="N", help="Line of the grant for the first slice."
)
@click.option(
    "--first-day", metavar="DATE", help="First day of a grant that lasts a number of days."
)
@click.option("--ends", metavar="DATE", help="Last day of the grant, or never.")
@click.option("--slice", metavar="NAME", help="Name of the first slice.  [default: first]")
@click.option("--zone", metavar="ZONE", help="Zone of the first slice.")
@click.option("--tier", metavar="TIER", help="Tier of the first slice.  [default: on_demand]")
@click.option("--type", metavar="TYPE", help="Accelerator type of the first slice, as v4-8.")
@click.option(
    "--count", type=int, metavar="N", help="How many slices of this type the grant allows."
)
@click.option("--api", metavar="API", help="API of the type, where both have it: tpu or compute.")
@click.option("--user", metavar="LOGIN", help="Your login on the machines.")
@click.option(
    "--key",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A file with your public key.  [default: ~/.ssh/*.pub]",
)
@click.option(
    "--people",
    metavar="LIST",
    help="Others: GitHub names, LOGIN=NAME, LOGIN=PUBLIC KEY, LOGIN=FILE.pub, or none.",
)
@click.option(
    "--github-url", default=GITHUB, show_default=True, metavar="URL", help="GitHub's API."
)
@click.option("--framework", metavar="NAME", help="jax, torch_xla, torch_tpu or none.")
@click.option("--code", metavar="WHERE", help="A git URL, a folder, example, or none.")
@click.option("--command", metavar="LINE", help="The command to run, or none.")
@click.option(
    "--checkpoints",
    metavar="WHERE",
    help="gs://BUCKET/FOLDER, a folder, or none.  [default: a new bucket]",
)
@click.option("--api-endpoint", metavar="URL", help="Another endpoint than Google's.")
@click.option("--yes", is_flag=True, help="Agree to all confirmations, and write the files.")
def init(folder: Path | None, **told: Any) -> None:
    """Create the files of a fleet, in a dialogue.

    Each question is also an option. FOLDER gets an inventory, an ansible.cfg, and the files with
    which an editor completes and checks the fleet file. No file is overwritten.

    \b
      tpu-fleet init lab              ask, for a project of Google Cloud
      tpu-fleet init --local try      ask, for the local cloud
    """
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # a mail may be pasted from anywhere
    person = is_person() and not (told["local"] and told["yes"])
    if person:
        tell(wrapped(GREETING))
    elif missing := _missing(folder, told):
        why = "This is not a terminal, so nothing can be asked"
        if is_person():
            why = "With --local and --yes nothing is asked"
        raise click.UsageError(f"{why}. Missing: {', '.join(missing)}.")
    folder = _folder(folder)
    interview = Interview(told, folder.resolve() / "inventory", person)
    try:
        while not answered(interview, folder):
            interview.dialogue.rewind()
    except (click.Abort, KeyboardInterrupt):  # Ctrl-C at a question, and between two
        tell(f"\nNothing was written. {_again(interview, folder)}", err=True)
        raise
    write(interview, folder)


def answered(interview: Interview, folder: Path) -> bool:
    """Ask all questions and show the files; return false if an earlier answer is to change."""
    try:
        interview.ask_all()
        show(interview, folder)
        agreed = interview.confirm("write", "Write these files?")
    except Back:
        return False
    except WrongAnswer as wrong:
        # Two options do not fit together.
        raise click.UsageError(str(wrong)) from wrong
    if not agreed:
        tell("Nothing was written.")
        raise click.exceptions.Exit(Exit.FAILED)
    return True


def _missing(folder: Path | None, told: Mapping[str, Any]) -> list[str]:
    """Return the options that are missing where no question can be asked."""
    by_mail = told["grant_mail"] is not None
    needed = {
        "--project": told["project"],
        "--grant or --grant-mail": told["grant"] or by_mail,
        "--zone": told["zone"] or by_mail,
        "--type": told["type"] or by_mail,
        "--user or --people": told["user"] or told["people"],
        "--code": told["code"],
        "--command": told["command"] is not None,
    }
    always = {"FOLDER": folder, **({} if told["local"] else needed), "--yes": told["yes"]}
    return [name for name, given in always.items() if not given]


def _again(interview: Interview, folder: Path) -> str:
    """Return the command that begins with the answers which were given."""
    told = interview.told
    words = ["tpu-fleet", "init", str(folder), *(["--local"] if told["local"] else [])]
    for name, said in [*told.items(), *interview.dialogue.typed]:
        is_option = name.replace("-", "_") in told and name != "github_url"
        if is_option and isinstance(said, (str, int)) and not isinstance(said, bool):
            words += [f"--{name.replace('_', '-')}", str(said)]
    return f"To go on from here: {shlex.join(words)}"


def _folder(given: Path | None) -> Path:
    while True:
        folder = given or Path(click.prompt("Folder for the files of the fleet", default="fleet"))
        reason = f"{folder} has characters that hide, or are not UTF-8."
        if str(folder).isprintable():
            taken = in_the_way(folder)
            if not taken:
                return folder
            reason = f"{folder} has {', '.join(taken)} already, and nothing is overwritten."
        if given:
            raise click.ClickException(f"{reason} Name another folder.")
        tell(f"  {reason}")


def show(interview: Interview, folder: Path) -> None:
    """Show the files, and what is worth a look in them."""
    files = files_of(interview.answers)
    for name, text in files.items():
        if name.suffix == ".yml":
            tell(f"\n----- {folder / name}\n{text.rstrip()}")
    others = [str(folder / name) for name in files if name.suffix != ".yml"]
    tell(wrapped(f"\n----- and {', '.join(others)}"))
    data = data_of(interview.answers)
    for notice in notices(data, datetime.now(UTC)):
        tell(wrapped(f"Warning: {notice}"), err=True)


def write(interview: Interview, folder: Path) -> None:
    """Write the files, and show the next commands."""
    files = files_of(interview.answers)
    try:
        written = write_all(folder, files)
    except OSError as error:
        raise click.ClickException(f"Nothing was written: {error}") from error
    tell(f"Wrote {len(written)} files into {folder}.")
    if len(written) < len(files):
        tell(f"{folder / EDITOR} stays as it was; docs/editor.md has what belongs in it.")
    if ends := interview.answers.ends:
        tell(
            wrapped(
                f"\nThe grant ends on {ends}; what still exists after it costs money. The fleet "
                "file has on_grant_end: delete, so that tpu-fleet watch, or a daily "
                "tpu-fleet grant expire, deletes the slice then. If the grant is "
                "extended, write its new end."
            )
        )
    tell("\nNext:")
    for line in lines_of(next_steps(folder, interview.answers)):
        tell(line)
