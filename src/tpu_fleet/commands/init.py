"""`tpu-fleet init`: ask what a first fleet is to be, and write its files."""

from __future__ import annotations

import getpass
import io
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import IO, Any, TypeVar

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import BadRequest
from ansible_collections.tpu.fleet.plugins.module_utils._core.ownership import (
    DEFAULT_OWNER,
    check_owner,
)
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import (
    RUN,
    shown,
    visible,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.notices import notices
from ansible_collections.tpu.fleet.plugins.module_utils._github.client import (
    GitHubError,
    public_keys,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import (
    APIS,
    GRANT_TIERS,
    Problem,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.values import public_key
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.accelerators import ACCELERATOR_TYPES
from ansible_collections.tpu.fleet.plugins.module_utils._wire.auth import destination

from ..begin import look
from ..begin.answers import (
    FLEET_KEY,
    Answers,
    Code,
    Person,
    data_of,
    frameworks,
    problems_of,
)
from ..begin.files import EDITOR, files_of, in_the_way, installed, write_all
from .trc_mail import EXAMPLE, Entry, as_yaml, read_mail, with_ends

GITHUB = "https://api.github.com"
LOCAL_ENDPOINT = "http://127.0.0.1:8470/"
EXAMPLES = {"jax": "examples/jax", "torch_xla": "examples/torch_xla"}
EXAMPLE_COMMAND = (
    # Five minutes, in which there is time to look, and to reboot a worker.
    "python train.py --steps 6000 --checkpoint-every 100 --step-seconds 0.05"
)
LOCAL = {
    "project": "local-project",
    "grant": "typed",
    "zone": "us-central2-b",
    "type": "v4-8",
    "count": 8,
    "framework": "jax",
    "code": "example",
}
END_OF_MAIL = "."
T = TypeVar("T")


class WrongAnswer(Exception):
    """An answer that cannot be used; the text says why, and what to do."""


@dataclass(frozen=True)
class Told:
    """What the command line says; None and () are asked for."""

    project: str | None
    owner: str | None
    grant: str | None
    grant_mail: IO[str] | None
    line: int | None
    first_day: str | None
    ends: str | None
    zone: str | None
    tier: str | None
    type: str | None
    count: int | None
    api: str | None
    slice: str | None
    user: str | None
    key: tuple[Path, ...]
    github: str | None
    framework: str | None
    code: str | None
    command: str | None
    api_endpoint: str | None
    github_url: str
    local: bool
    yes: bool

    def missing(self) -> list[str]:
        """Return the options without which nobody can be spared the questions."""
        lacking = [] if self.yes else ["--yes"]
        if self.local:
            return lacking
        by_mail = self.grant_mail is not None
        needed = {
            "--project": self.project,
            "--grant or --grant-mail": self.grant or by_mail,
            "--zone": self.zone or by_mail,
            "--type": self.type or by_mail,
            "--user or --github": self.user or self.github,
            "--code": self.code,
            "--command": self.command is not None,
        }
        return [*(name for name, given in needed.items() if not given), *lacking]


def is_person() -> bool:
    """Return whether somebody is there who can answer."""
    return sys.stdin.isatty()


class Interview:
    """Asks one question after the other, and checks each answer by the fleet file's own rules."""

    def __init__(self, told: Told, inventory: Path, person: bool) -> None:
        self.told = told
        self.answers = Answers(project=str(LOCAL["project"]) if told.local else "")
        self._inventory = inventory
        self._person = person

    def ask(
        self,
        option: str,
        text: str,
        take: Callable[[str], T],
        given: object = None,
        default: str | None = None,
    ) -> T:
        """Return what an answer is taken for; a wrong one is asked again, with the reason."""
        if given in (None, ""):
            given = None if self._person else default or ""
        if given is not None:
            try:
                return take(str(given))
            except WrongAnswer as wrong:
                raise click.UsageError(f"--{option} {given}: {wrong}") from wrong
        while True:
            said = str(click.prompt(text, default=default, show_default=bool(default))).strip()
            try:
                return take(said)
            except WrongAnswer as wrong:
                tell(f"  {wrong}")

    def choose(
        self,
        option: str,
        text: str,
        choices: Sequence[str],
        given: object,
        default: str,
        name: str = "",
    ) -> str:
        """Return one of several words, which is an answer where it has a name."""

        def take(said: str) -> str:
            if said not in choices:
                raise WrongAnswer(f"{said!r} is none of {', '.join(choices)}.")
            if name:
                self.note(**{name: said})
            return said

        return self.ask(option, f"{text} ({', '.join(choices)})", take, given, default)

    def confirm(self, text: str, default: bool = True) -> bool:
        """Return whether somebody agrees; --yes agrees to everything."""
        return self.told.yes or click.confirm(text, default=default)

    def say(self, text: str = "") -> None:
        """Show something to the person."""
        tell(text)

    def note(self, **more: Any) -> None:
        """Add answers, if the fleet file may have them."""
        new = replace(self.answers, **more)
        if any(mark in str(more) for mark in ("{%", "{#")) or "{{" in _without_key(str(more)):
            raise WrongAnswer("Ansible would evaluate this as a template: leave {{, {% and {# out.")
        if not _is_utf8(data_of(new)):
            raise WrongAnswer("This has bytes that are not UTF-8: write it in UTF-8.")
        problems = [
            problem for problem in problems_of(new, self._inventory) if not _comes_later(problem)
        ]
        if problems:
            raise WrongAnswer(" ".join(map(_reason, problems)))
        self.answers = new

    def noting(self, name: str) -> Callable[[str], None]:
        """Return what takes an answer for a field of the answers."""
        return lambda said: self.note(**{name: said})

    # The questions

    def where(self) -> None:
        """Ask for the project, and show what it has."""
        given = self.told.api_endpoint or (LOCAL_ENDPOINT if self.told.local else "")
        if given:
            self.ask("api-endpoint", "Endpoint", self.noting("endpoint"), given)
        if not self.told.local or self.told.project:
            found = look.gcloud_setting(os.environ, "core", "project")
            self.ask(
                "project", "Project id", self._project, self.told.project, shown(found) or None
            )
        owners: set[str] = set()
        endpoint = self.answers.endpoint
        if look.has_credentials(os.environ) or destination(endpoint) == "loopback":
            # The local cloud is usually not up yet; then nothing is there.
            if not self.told.local or self.told.api_endpoint:
                lines, owners = look.nodes_there(self.answers.project, endpoint)
                self.say("".join(f"  {line}\n" for line in lines).rstrip("\n"))
        else:
            self.say("  There are no credentials yet, so the project's nodes are not shown.")
        default = _own_name() if DEFAULT_OWNER in owners else DEFAULT_OWNER
        text = "Owner, a label on all that this fleet creates (a second fleet needs another one)"
        self.ask("owner", text, self._owner, self.told.owner, default)

    def _owner(self, said: str) -> None:
        try:
            check_owner(said)
        except BadRequest as error:
            raise WrongAnswer(str(error)) from error
        self.note(owner=said)

    def _project(self, said: str) -> None:
        if not said:
            raise WrongAnswer("Give the project id, as gcloud projects list shows it.")
        self.note(project=said)

    def grant(self) -> None:
        """Ask for the grant and the first slice, which is within it."""
        told = self.told
        kind = "mail" if told.grant_mail else told.grant
        default = str(LOCAL["grant"]) if told.local else "mail"
        kinds = ("mail", "typed", "unrestricted")
        if told.local and kind is None:
            kind = default
        kind = self.choose("grant", "What the grant comes from", kinds, kind, default)
        if kind == "mail":
            self._by_mail()
        else:
            self._by_hand(limited=kind == "typed")
        self.ask("slice", "Name of the first slice", self.noting("slice"), told.slice, "first")

    def _by_mail(self) -> None:
        entries = self._entries_of_mail()
        self.note(grant=as_yaml(entries))
        for number, entry in enumerate(entries, 1):
            what = entry.generation or entry.accelerator_type
            amount = f"{entry.chips} chips" if entry.chips else f"{entry.count} slices"
            self.say(f"  {number}. {entry.zone}: {amount} of {what}, {entry.tier}")

        def take(said: str) -> Entry:
            if not said.isdecimal() or not 1 <= int(said) <= len(entries):
                raise WrongAnswer(f"{said!r} is no number from 1 to {len(entries)}.")
            return entries[int(said) - 1]

        line = self.told.line or (1 if len(entries) == 1 else None)
        chosen = self.ask("line", "Line of the grant for the first slice", take, line, "1")
        self.note(zone=self.told.zone or chosen.zone, tier=self.told.tier or chosen.tier)
        sizes = [
            kind.name
            for kind in ACCELERATOR_TYPES.values()
            if kind.generation == (chosen.generation or "")
        ]
        smallest = chosen.accelerator_type or (sizes[0] if sizes else None)
        self._type(smallest)

    def _entries_of_mail(self) -> list[Entry]:
        while True:
            mail = read_mail(self._text_of_mail())
            for item in mail.unclear:
                self.say(f"  line {item.line}: {shown(item.text)}\n    {item.why}")
            if not mail.entries:
                reason = f"No line of a grant was found. Lines look like: {EXAMPLE}"
            elif mail.unclear and not self._person:
                reason = "The lines above are unclear, and nothing is guessed: correct them."
            elif mail.unclear and not self.confirm("Go on without these lines?", False):
                reason = "Then paste the mail again, with these lines corrected."
            else:
                break
            if not self._person or self.told.grant_mail:
                raise click.UsageError(f"--grant-mail: {reason}")
            self.say(f"  {reason}")
        if mail.days and not self.told.ends:
            text = f"First of the {mail.days} days (2026-12-01; as a rule the mail's date)"
            start = self.ask("first-day", text, _day, self.told.first_day)
            return with_ends(mail, None, start)
        return with_ends(mail, self._ends(), None)

    def _text_of_mail(self) -> str:
        if self.told.grant_mail:
            return self.told.grant_mail.read()
        self.say(f"Paste the mail, then a line with only a full stop ({END_OF_MAIL}).")
        lines: list[str] = []
        while True:
            line = click.prompt("", default="", show_default=False, prompt_suffix="")
            if line.strip() == END_OF_MAIL:
                return "\n".join(lines)
            lines.append(line)

    def _ends(self) -> date | None:
        def take(said: str) -> date | None:
            return None if said == "never" else _day(said)

        text = "Last day of the grant (2027-01-31, or never)"
        return self.ask("ends", text, take, self.told.ends, "never")

    def _by_hand(self, limited: bool) -> None:
        told = self.told
        zone, kind = (str(LOCAL[name]) if told.local else None for name in ("zone", "type"))
        zone = zone or shown(look.gcloud_setting(os.environ, "compute", "zone")) or None
        self.ask("zone", "Zone", self.noting("zone"), told.zone, zone)
        self.choose("tier", "Tier", GRANT_TIERS, told.tier, "on_demand", "tier")
        self._type(kind)
        if not limited:
            return
        answers = self.answers
        ends = self._ends() if not told.local or told.ends else None

        def take(said: str) -> None:
            if not said.isdecimal():
                raise WrongAnswer(f"{said!r} is not a whole number.")
            entry = Entry(
                answers.zone,
                answers.tier,
                accelerator_type=answers.accelerator_type,
                count=int(said),
                ends=ends,
            )
            text = as_yaml([entry])
            if answers.api:
                text += f"    api: {answers.api}\n"
            self.note(grant=text)

        text = f"How many {answers.accelerator_type} the grant allows at a time"
        default = str(LOCAL["count"]) if told.local else "1"
        self.ask("count", text, take, told.count, default)

    def _type(self, default: str | None) -> None:
        self.ask(
            "type", "Accelerator type", self.noting("accelerator_type"), self.told.type, default
        )
        needs_api = any(
            _comes_later(problem) for problem in problems_of(self.answers, self._inventory)
        )
        if needs_api or self.told.api:
            text = f"Which API has the {self.answers.accelerator_type}"
            self.choose("api", text, APIS, self.told.api, APIS[0], "api")

    def people(self) -> None:
        """Ask who gets an account, and show their keys before they are taken."""
        told = self.told
        if told.user is not None or not told.github or self._person:
            keys = _keys_in(told.key) if told.key else look.own_keys()
            for key in keys:
                self.say(f"  your key: {look.key_line(key)}")
            if not keys:
                self.say(
                    "  You have no key in ~/.ssh, so yours is the one that Ansible logs in with."
                )
            keys = keys or (FLEET_KEY,)
            self.ask(
                "user",
                "Your login on the machines",
                lambda said: self.note(people=(Person(said, keys),)),
                told.user,
                _own_name(),
            )
        text = "GitHub names of others, with commas (NAME, or LOGIN=NAME; none for nobody)"
        self.ask("github", text, self._of_github, told.github, "none")

    def _of_github(self, said: str) -> None:
        before = self.answers.people
        if said == "none":
            if not before:
                raise WrongAnswer("Somebody has to be there: give a name, or --user.")
            return
        found = [self._account(word) for word in re.split(r"[,\s]+", said) if word]
        try:
            self.note(people=(*before, *found))
        except WrongAnswer as wrong:
            raise WrongAnswer(f"{wrong} Another login is given as LOGIN=NAME.") from wrong
        if not self.confirm("Take these keys?"):
            self.answers = replace(self.answers, people=before)
            raise WrongAnswer("Then name others, or none.")

    def _account(self, word: str) -> Person:
        login, _sign, name = word.rpartition("=")
        try:
            keys = public_keys(self.told.github_url, name)
        except GitHubError as error:
            if error.status == 404:
                raise WrongAnswer(f"GitHub has no account {shown(name)}.") from error
            raise WrongAnswer(shown(error)) from error
        if not keys:
            raise WrongAnswer(f"{name} has no public keys on GitHub. Leave {name} out for now.")
        person = Person(login or name.lower(), tuple(f"{key} {name}@github" for key in keys))
        try:
            lines = [look.key_line(key) for key in person.keys]
        except ValueError as error:
            raise WrongAnswer(f"GitHub's answer for {name} is no key.") from error
        for line in lines:
            self.say(f"  {person.login}: {line}")
        return person

    def program(self) -> None:
        """Ask for environment, code and command."""
        told = self.told
        default = str(LOCAL["framework"])
        framework = self.choose(
            *("framework", "Python environment", frameworks()), told.framework, default, "framework"
        )
        has_example = framework in EXAMPLES
        code = "example" if told.local and has_example else "." if not told.local else "none"
        example = "example for ours, " if has_example else ""
        text = f"Code (a git URL, a folder, {example}none)"
        self.ask("code", text, self._code, told.code, code)
        command = "none"
        if self.answers.code and self.answers.code.name == "example":
            command = EXAMPLE_COMMAND
        self.ask(
            "command", "Command to run (none for no run)", self._command, told.command, command
        )

    def _code(self, said: str) -> None:
        try:
            self._code_of(said)
        except (OSError, RuntimeError, ValueError) as error:
            # A name that is too long, ~somebody who is not there, or a NUL.
            why = error.strerror if isinstance(error, OSError) else error
            raise WrongAnswer(f"{shown(said)} is neither a URL nor a folder: {why}.") from error

    def _code_of(self, said: str) -> None:
        if said == "none":
            self.note(code=None)
            return
        framework = self.answers.framework
        if said == "example":
            if framework not in EXAMPLES:
                raise WrongAnswer(f"There is no example for {framework}: name a URL or a folder.")
            repo, folder = "", str(installed(EXAMPLES[framework]))
        else:
            repo, folder = look.code_named(said, self._inventory)
        words = re.split(r"[/:]", (repo or str(Path(said).expanduser().resolve())).rstrip("/"))
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", words[-1].removesuffix(".git")).strip("-_")[:40]
        place = Path(os.path.normpath(self._inventory / folder)) if folder else None
        self.note(
            code=Code(
                "example" if said == "example" else name if RUN.fullmatch(name) else "code",
                repo,
                folder,
                bool(place and framework != "none" and (place / "requirements.txt").is_file()),
            )
        )

    def _command(self, said: str) -> None:
        self.note(command="" if said == "none" else said)


def _comes_later(problem: Problem) -> bool:
    """Return whether a problem is only that both APIs have the type, which is asked for then."""
    return problem.field.endswith(".api") and problem.value is None


def tell(text: str, err: bool = False) -> None:
    """Show a text of ours; names of folders and people in it are shown, and steer nothing."""
    click.echo(visible(text), err=err)


def _is_utf8(data: dict[str, Any]) -> bool:
    try:
        json.dumps(data, ensure_ascii=False, default=str).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _without_key(text: str) -> str:
    return text.replace(FLEET_KEY, "")


def _reason(problem: Problem) -> str:
    """Return a problem without the place in a file that is not there yet."""
    about = "" if problem.value is None else f"{shown(problem.value)}: "
    end = "?" if problem.remedy.startswith("Did you mean") else "."
    return f"{about}{shown(problem.message)}. {shown(problem.remedy)}{end}"


def _day(said: str) -> date:
    try:
        return date.fromisoformat(said)
    except ValueError as error:
        raise WrongAnswer(f"{said!r} is not a date. Write it as 2026-12-31.") from error


def _own_name() -> str | None:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        return None
    return "me" if name == "root" else name


def _keys_in(files: Sequence[Path]) -> tuple[str, ...]:
    try:
        keys = {path: path.read_text(encoding="utf-8").strip() for path in files}
    except (OSError, UnicodeError) as error:
        raise click.UsageError(f"--key: {error}") from error
    for path, key in keys.items():
        if why := public_key(key):
            raise click.UsageError(f"--key {path}: it {why}. Name a file as ~/.ssh/id_ed25519.pub.")
    return tuple(keys.values())


def next_steps(folder: Path, answers: Answers) -> list[str]:
    """Return the commands that come next."""
    local = bool(answers.endpoint)
    steps = [] if folder.resolve() == Path.cwd() else [(f"cd {shlex.quote(str(folder))}", "")]
    if local:
        steps += [
            ("tpu-fleet cloud up --install", "the local cloud, with machines: as root"),
            ("tpu-fleet cloud delays all=0.5", "half a second for what takes minutes"),
        ]
    elif not look.has_credentials(os.environ):
        steps.append(("gcloud auth application-default login", ""))
    if not local:
        enable = "gcloud services enable tpu.googleapis.com --project="
        steps.append((f"{enable}{answers.project}", ""))
    steps += [
        ("ansible-playbook tpu.fleet.site --check --diff", "says what it would do"),
        (
            "ansible-playbook tpu.fleet.site",
            f"gets slices, sets up, trains{'' if local else '; costs begin'}",
        ),
        ("tpu-fleet top", "slices and runs, live; q leaves it"),
        ("tpu-fleet page", "the same as a page for the browser"),
        ("ansible-playbook tpu.fleet.teardown -e teardown=all", "deletes the slices"),
    ]
    if local:
        steps.append(("tpu-fleet cloud down", "removes the local cloud"))
    return [f"{step:53} # {about}" if about else step for step, about in steps]


@click.command()
@click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--local", is_flag=True, help="For the local cloud; every answer has a default.")
@click.option("--project", metavar="ID", help="The Google Cloud project.")
@click.option(
    "--owner", metavar="LABEL", help="Label of the fleet's resources.  [default: managed]"
)
@click.option("--grant", metavar="KIND", help="mail, typed (zone, type, count), or unrestricted.")
@click.option(
    "--grant-mail",
    type=click.File(errors="replace"),
    help="The text of the grant mail; - is the input.",
)
@click.option("--line", type=click.IntRange(1), metavar="N", help="Its line for the first slice.")
@click.option("--first-day", metavar="DATE", help="First day of a grant of so many days.")
@click.option("--ends", metavar="DATE", help="Last day of the grant, or never.")
@click.option("--slice", metavar="NAME", help="Name of the first slice.  [default: first]")
@click.option("--zone", metavar="ZONE", help="Its zone.")
@click.option("--tier", metavar="TIER", help="Its tier.  [default: on_demand]")
@click.option("--type", metavar="TYPE", help="Its accelerator type, as v4-8.")
@click.option("--count", type=int, metavar="N", help="How many of that type are granted.")
@click.option("--api", metavar="API", help="tpu or compute, where both have the type.")
@click.option("--user", metavar="LOGIN", help="Your login on the machines.")
@click.option(
    "--key",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with your public key.  [default: ~/.ssh/*.pub]",
)
@click.option("--github", metavar="NAMES", help="GitHub names of people, with commas, or none.")
@click.option("--github-url", default=GITHUB, show_default=True, metavar="URL", help="Its API.")
@click.option("--framework", metavar="NAME", help="jax, torch_xla, torch_tpu or none.")
@click.option("--code", metavar="WHERE", help="A git URL, a folder, example, or none.")
@click.option("--command", metavar="LINE", help="The command to run, or none.")
@click.option("--api-endpoint", metavar="URL", help="Another endpoint than Google's.")
@click.option("--yes", is_flag=True, help="Agree to everything, and write the files.")
def init(folder: Path | None, **options: Any) -> None:
    """Ask what the fleet is to be, and write the first fleet file.

    The file is shown before it is written.

    Everything that is asked is also an option. FOLDER gets an inventory, an ansible.cfg, and what
    an editor needs to complete and check the fleet file. No file is overwritten.

    \b
      tpu-fleet init lab              ask, for a project of Google Cloud
      tpu-fleet init --local try      ask, for the local cloud
    """
    told = Told(**options)
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # a mail may be pasted from anywhere
    person = is_person() and not (told.local and told.yes)
    if not person:
        missing = [*([] if folder else ["FOLDER"]), *told.missing()]
        if missing:
            why = "With --local and --yes nothing is asked"
            if not is_person():
                why = "This is not a terminal, so nothing can be asked"
            raise click.UsageError(f"{why}. Missing: {', '.join(missing)}.")
    folder = _folder(folder)
    interview = Interview(told, folder.resolve() / "inventory", person)
    try:
        interview.where()
        interview.grant()
        interview.people()
        interview.program()
    except WrongAnswer as wrong:
        # Two options do not fit together.
        raise click.UsageError(str(wrong)) from wrong
    finish(interview, folder)


def _folder(given: Path | None) -> Path:
    while True:
        folder = given or Path(click.prompt("Folder for the files of the fleet", default="fleet"))
        hides = not str(folder).isprintable()
        taken = [] if hides else in_the_way(folder)
        if not taken and not hides:
            return folder
        reason = f"{folder} has {', '.join(taken)} already, and nothing is overwritten."
        if hides:
            reason = f"{folder} has characters that hide, or are not UTF-8."
        if given:
            raise click.ClickException(f"{reason} Name another folder.")
        tell(f"  {reason}")


def finish(interview: Interview, folder: Path) -> None:
    """Show the files, write them, and say what comes next."""
    files = files_of(interview.answers)
    for name, text in files.items():
        if name.suffix == ".yml":
            tell(f"\n----- {folder / name}\n{text.rstrip()}")
    others = [str(folder / name) for name in files if name.suffix != ".yml"]
    tell(f"\n----- and {', '.join(others)}")
    data = data_of(interview.answers)
    for notice in notices(data, datetime.now(UTC)):
        tell(f"Warning: {notice}", err=True)
    if not interview.confirm("Write these files?"):
        tell("Nothing was written.")
        raise click.exceptions.Exit(1)
    try:
        written = write_all(folder, files)
    except OSError as error:
        raise click.ClickException(f"Nothing was written: {error}") from error
    tell(f"Wrote {len(written)} files into {folder}.")
    if len(written) < len(files):
        tell(f"{folder / EDITOR} stays as it was; docs/editor.md has what belongs in it.")
    tell("\nNext:")
    for line in next_steps(folder, interview.answers):
        tell(f"  {line}")
