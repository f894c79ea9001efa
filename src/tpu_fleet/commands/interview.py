"""The questions of `tpu-fleet init`, each answer checked by the fleet file's own rules."""

from __future__ import annotations

import functools
import getpass
import json
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, TypeVar

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.checkpoints import bucket_and_folder
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import BadRequest
from ansible_collections.tpu.fleet.plugins.module_utils._core.ownership import (
    DEFAULT_OWNER,
    check_owner,
)
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown
from ansible_collections.tpu.fleet.plugins.module_utils._github.client import (
    GitHubError,
    public_keys,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.accelerators import (
    ACCELERATOR_TYPES,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import APIS, Problem
from ansible_collections.tpu.fleet.plugins.module_utils._schema.values import ENTRY_NAME, public_key
from ansible_collections.tpu.fleet.plugins.module_utils._wire.auth import destination

from ..begin import look
from ..begin.answers import FLEET_KEY, Answers, Code, Person, data_of, frameworks, problems_of
from ..begin.days import DATE, date_of, last_day_of
from ..begin.files import installed
from .dialogue import BACK, END_OF_TEXT, Dialogue, WrongAnswer, pasted, typed
from .trc_mail import EXAMPLE, GrantEntry, Mail, as_yaml, read_mail, with_ends

T = TypeVar("T")
EXAMPLES = {"jax": "examples/jax", "torch_xla": "examples/torch_xla"}
EXAMPLE_COMMAND = (
    # Five minutes, in which there is time to look, and to reboot a worker.
    "python train.py --steps 6000 --checkpoint-every 100 --step-seconds 0.05"
)
# What a first slice may be; the others need words that init does not ask for.
ASKED_TIERS = ("on_demand", "spot", "reserved")
LOCAL = {"zone": "us-central2-b", "type": "v4-8", "count": "8", "framework": "jax"}
COMMAND = "Command to run (none for no run)"
NONE = "none"
NO_DATE = f"is not a date. Write it as {DATE}."
NO_END = (
    f"is not a date and not a number of days. Write it as {DATE}, as 30 days (from today on), or "
    "never."
)
Read = Callable[[str, date], date | None]
EXPLAINED = {
    "project": "The Google Cloud project that the grant is for: its id, as gcloud projects list "
    "shows it in the first column.",
    "owner": "A label on every resource of this fleet. tpu.fleet changes and deletes only what has "
    "it, so a second fleet in the same project needs another one.",
    "grant": "mail: paste the mail of the TPU Research Cloud. typed: enter zone, type and number. "
    "unrestricted: only the project's quota limits what is created. Nothing is created outside of "
    "the grant.",
    "mail": "Paste the whole mail. Lines such as this are read: " + EXAMPLE,
    "go-on": "The rest of the mail is used; what these lines grant is never created.",
    "first-day": "The mail grants a number of days. They usually begin on the day of the mail.",
    "ends": "After this day the grant holds nothing, and what still exists costs money.",
    "line": "The number of the line, as listed above. Further slices are further entries of "
    "fleet_slices.",
    "zone": "The zone of the slice, such as us-central2-b. The grant names it.",
    "tier": "on_demand: kept until you delete it. spot: cheaper, and Google may "
    "take it back at any time. reserved: from a reservation.",
    "type": "Generation and size, such as v4-8. v2, v3, v4 and v5p count TensorCores, two a chip; "
    "v5litepod and v6e count chips.",
    "api": "tpu: the Cloud TPU API. compute: Compute Engine. Both have this type.",
    "count": "How many slices of this type the grant allows at the same time.",
    "slice": "Names the slice in commands and on its workers: slice first has the worker first-w0.",
    "user": "Your account on every machine, with sudo.",
    "people": "GitHub names, with commas: their public keys are fetched from GitHub and shown "
    "before they are used. LOGIN=NAME gives another login. LOGIN=PUBLIC KEY takes a pasted key, "
    "such as bob=ssh-ed25519 AAAA… bob@lab, and LOGIN=FILE.pub one from a file.",
    "keys": "Each person listed above gets an account on every machine, which these keys open.",
    "framework": "What is installed into the Python environment of the run; none installs none.",
    "code": "A git URL, cloned on every machine; a folder of this computer, copied there (. is "
    "this one); example, the bundled example; or none.",
    "command": "One shell command, started in the folder of the code on every machine of the "
    "slice, and restarted until it has succeeded.",
    "script": "The command is started in the folder of the code.",
    "checkpoints": "Where the program saves, its TPU_FLEET_CHECKPOINT_DIR. A bucket outlives the "
    "slice, whose disk is deleted with it. The proposed one is made by apply, in the region of the "
    "slice; any other bucket must be there. A folder begins with /. none: a folder on the disk of "
    "the machine, which a preemption deletes.",
    "write": f"y writes the files, n writes nothing, {BACK} changes an answer.",
}


class Interview:
    """Asks one question after the other, and checks each answer by the fleet file's own rules.

    `told` are the options of the command line; None, "" and () are asked for.
    """

    def __init__(self, told: Mapping[str, Any], inventory: Path, person: bool) -> None:
        self.told = told
        self.dialogue = Dialogue(EXPLAINED)
        self.say = self.dialogue.say
        self.here = _local_cloud() if told["local"] else ("", "")
        self._inventory = inventory
        self._person = person
        self._mail = told["grant_mail"].read() if told["grant_mail"] else ""
        self._nodes: tuple[list[str], set[str]] = [], set()
        # Accounts of GitHub that were found are not fetched again.
        self._account = functools.cache(functools.partial(_account, told["github_url"]))

    def ask_all(self) -> None:
        """Ask all questions, from the first one on."""
        self.answers = Answers(project=self.here[1])
        parts = {
            "Project": self.where,
            "Grant and first slice": self.grant,
            "People": self.people,
            "Environment, code and command": self.program,
        }
        for number, (title, part) in enumerate(parts.items(), 1):
            if self._person:
                self.say("")
                self.say(f"Step {number} of 4: {title}", bold=True)
            part()

    def ask(
        self,
        option: str,
        text: str,
        take: Callable[[str], T],
        default: str = "",
        choices: Sequence[str] = (),
        given: object = None,
    ) -> T:
        """Return what an answer is taken for; a wrong one is asked again, with the reason.

        The answer is the option's, if it is given.
        """

        def checked(said: str) -> T:
            if choices and said not in choices:
                raise WrongAnswer(f"{said!r} is none of {', '.join(choices)}.")
            return take(said)

        text = f"{text} ({', '.join(choices)})" if choices else text
        given = self.told[option.replace("-", "_")] if given is None else given
        if given in (None, "") and self._person:
            return self.dialogue.question(option, lambda: typed(text, default), checked)
        given = default if given in (None, "") else given
        try:
            return checked(str(given))
        except WrongAnswer as wrong:
            raise click.UsageError(f"--{option} {given}: {wrong}") from wrong

    def confirm(self, name: str, text: str, default: str = "y") -> bool:
        """Return whether the person agrees; --yes agrees to everything."""

        def take(said: str) -> bool:
            if said.lower() not in ("y", "yes", "n", "no"):
                raise WrongAnswer("Answer y or n.")
            return said.lower().startswith("y")

        if self.told["yes"]:
            return True
        return self.dialogue.question(name, lambda: typed(f"{text} (y, n)", default), take)

    def note(self, **more: Any) -> None:
        """Add answers, if the fleet file may have them."""
        new = replace(self.answers, **more)
        if re.search(r"\{[{%#]", str(more).replace(FLEET_KEY, "")):
            raise WrongAnswer("Ansible would evaluate this as a template: leave {{, {% and {# out.")
        try:
            json.dumps(data_of(new), ensure_ascii=False, default=str).encode("utf-8")
        except UnicodeEncodeError as error:
            raise WrongAnswer("This has bytes that are not UTF-8: write it in UTF-8.") from error
        if problems := [one for one in self._problems(new) if not _comes_later(one)]:
            raise WrongAnswer(" ".join(map(_reason, problems)))
        self.answers = new

    def _problems(self, answers: Answers) -> list[Problem]:
        return problems_of(answers, self._inventory)

    def noting(self, name: str) -> Callable[[str], None]:
        """Return what takes an answer for a field of the answers."""
        return lambda said: self.note(**{name: said})

    # The questions

    def where(self) -> None:
        """Ask for the project, and show what it has."""
        told = self.told
        if given := told["api_endpoint"] or self.here[0]:
            self.ask("api-endpoint", "Endpoint", self.noting("endpoint"), given=given)
        if not told["local"] or told["project"]:
            found = shown(look.gcloud_setting(os.environ, "core", "project"))
            self.ask("project", "Project id", self._project, found)
        owners: set[str] = set()
        endpoint = self.answers.endpoint
        if not look.has_credentials(os.environ) and destination(endpoint) != "loopback":
            self.say("  There are no credentials yet, so the project's nodes are not shown.")
        # The local cloud is usually not up yet; then nothing is there.
        elif not told["local"] or told["api_endpoint"]:
            if not self.dialogue.silent:
                self._nodes = look.nodes_there(self.answers.project, endpoint)
            lines, owners = self._nodes
            self.say("\n".join(f"  {line}" for line in lines))
        default = _own_name() if DEFAULT_OWNER in owners else DEFAULT_OWNER
        self.ask("owner", "Owner (a label on each resource of this fleet)", self._owner, default)

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
        given = "mail" if self.told["grant_mail"] else self.told["grant"]
        given = given or "typed" if self.told["local"] else given
        text, kinds = "What the grant comes from", ("mail", "typed", "unrestricted")
        kind = self.ask("grant", text, str, kinds[0], kinds, given)
        if kind == "mail":
            self._by_mail()
        else:
            self._by_hand(limited=kind == "typed")
        self.ask("slice", "Name of the first slice", self.noting("slice"), "first")

    def _by_mail(self) -> None:
        entries = self._entries_of_mail()
        self.note(grant=as_yaml(entries), ends=entries[0].ends)
        for number, entry in enumerate(entries, 1):
            what = entry.generation or entry.accelerator_type
            amount = f"{entry.chips} chips of" if entry.chips else f"{entry.count} slices"
            ends = f"until {entry.ends}" if entry.ends else "without an end"
            self.say(f"  {number}. {entry.zone}: {amount} {what}, {entry.tier}, {ends}")

        def take(said: str) -> GrantEntry:
            if not said.isdecimal() or not 1 <= int(said) <= len(entries):
                raise WrongAnswer(f"{said!r} is no number from 1 to {len(entries)}.")
            return entries[int(said) - 1]

        line = self.told["line"] or (1 if len(entries) == 1 else None)
        chosen = self.ask("line", "Line of the grant for the first slice", take, "1", given=line)
        zone, tier = self.told["zone"] or chosen.zone, self.told["tier"] or chosen.tier
        self.note(zone=zone, tier=tier)
        sizes = (
            one.name for one in ACCELERATOR_TYPES.values() if one.generation == chosen.generation
        )
        self._type(chosen.accelerator_type or next(sizes, ""))

    def _entries_of_mail(self) -> list[GrantEntry]:
        told = self.told
        if told["grant_mail"]:
            try:
                mail = self._read_mail(self._mail)
            except WrongAnswer as wrong:
                raise click.UsageError(f"--grant-mail: {wrong}") from wrong
        else:
            end = f"write a line with only a full stop ({END_OF_TEXT})"
            mail = self._pasted(f"Paste the mail, then press Ctrl-D or {end}.")
        while mail.unclear and not self.confirm("go-on", "Go on without these lines?", "n"):
            reason = "Paste the mail again, with these lines corrected."
            if told["grant_mail"]:
                raise click.UsageError(f"--grant-mail: {reason}")
            mail = self._pasted(reason)
        if not mail.days or told["ends"]:
            return with_ends(mail, self._ends(), None)
        text = f"First of the {mail.days} days (as 2026-12-01 or 1 Dec, or today)"
        return with_ends(mail, None, self.ask("first-day", text, self._day))

    def _pasted(self, intro: str) -> Mail:
        return self.dialogue.question("mail", lambda: pasted(intro), self._read_mail)

    def _read_mail(self, text: str) -> Mail:
        mail = read_mail(text)
        for item in mail.unclear:
            self.say(f"  line {item.line}: {shown(item.text)}\n    {item.why}")
        if not mail.entries:
            raise WrongAnswer(
                f"No line of a grant was found. Lines look like: {EXAMPLE}. Without a mail go back "
                f"with a line {BACK} and choose typed."
            )
        if mail.unclear and not self._person:
            raise WrongAnswer("The lines above are unclear, and nothing is guessed: correct them.")
        return mail

    def _ends(self) -> date | None:
        def take(said: str) -> date | None:
            return None if said == "never" else self._day(said, last_day_of, NO_END)

        text = "Last day of the grant (as 2027-01-31, 31 Jan, 30 days or never)"
        return self.ask("ends", text, take, "never")

    def _day(self, said: str, read: Read = date_of, wrong: str = NO_DATE) -> date:
        """Return the day of an answer, and show which one it is, unless it was written that way."""
        day = read(said, datetime.now(UTC).date())
        if day is None:
            raise WrongAnswer(f"{said!r} {wrong}")
        if said != str(day):
            self.say(f"  That is {day}.")
        return day

    def _by_hand(self, limited: bool) -> None:
        local = LOCAL if self.told["local"] else {}
        zone = local.get("zone") or shown(look.gcloud_setting(os.environ, "compute", "zone"))
        self.ask("zone", "Zone", self.noting("zone"), zone)
        self.ask("tier", "Tier", self.noting("tier"), "on_demand", ASKED_TIERS)
        self._type(local.get("type", ""))
        if not limited:
            return
        answers = self.answers
        ends = self._ends() if not local or self.told["ends"] else None

        def take(said: str) -> None:
            if not said.isdecimal():
                raise WrongAnswer(f"{said!r} is not a whole number.")
            entry = GrantEntry(
                answers.zone,
                answers.tier,
                accelerator_type=answers.accelerator_type,
                count=int(said),
                ends=ends,
                api=answers.api or None,
            )
            self.note(grant=as_yaml([entry]), ends=ends)

        text = f"How many {answers.accelerator_type} the grant allows at a time"
        self.ask("count", text, take, local.get("count", "1"))

    def _type(self, default: str) -> None:
        self.ask("type", "Accelerator type", self.noting("accelerator_type"), default)
        if self.told["api"] or any(map(_comes_later, self._problems(self.answers))):
            text = f"Which API has the {self.answers.accelerator_type}"
            self.ask("api", text, self.noting("api"), APIS[0], APIS)

    def people(self) -> None:
        """Ask who gets an account, and show their keys before they are used."""
        told = self.told
        if told["user"] is not None or not told["people"] or self._person:
            keys = _keys_in(told["key"]) if told["key"] else look.own_keys()
            for key in keys:
                self.say(f"  your key: {look.key_line(key)}")
            if not keys:
                own = shown(os.environ.get("TPU_FLEET_SSH_KEY") or "~/.ssh/tpu_fleet")
                self.say(f"  There is no key in ~/.ssh: Ansible's own, {own}, is yours, too.")
                keys = (FLEET_KEY,)
            self.ask(
                *("user", "Your login on the machines"),
                lambda said: self.note(people=(Person(said, keys, sudo=True),)),
                _own_name(),
            )
        text = "Other people (GitHub names with commas; LOGIN=NAME, =PUBLIC KEY or =FILE.pub)"
        before = self.answers.people
        while True:
            found = self.ask("people", text, self._people, NONE)
            for person in found:
                for key in person.keys:
                    self.say(f"  {person.login}: {look.key_line(key)}")
            if not found or self.confirm("keys", "Use these keys?"):
                return
            if told["people"]:
                raise click.UsageError("--people: the keys were declined. Name other people.")
            self.answers = replace(self.answers, people=before)
            self.say("  Then name others, or none.")

    def _people(self, said: str) -> list[Person]:
        before = self.answers.people
        if said == NONE and not before:
            raise WrongAnswer("The fleet needs a person: give a name, or --user.")
        if said == NONE:
            return []
        found = [self._person_of(word) for word in _words(said)]
        try:
            self.note(people=(*before, *found))
        except WrongAnswer as wrong:
            raise WrongAnswer(f"{wrong} Another login is given as LOGIN=NAME.") from wrong
        return found

    def _person_of(self, word: str) -> Person:
        login, _sign, key = word.partition("=")
        in_file = key.endswith(".pub")
        if " " not in key and not in_file:
            return self._account(word)
        key = _key_of(key) if in_file else key
        if why := public_key(key):
            raise WrongAnswer(f"The key of {shown(login)} {why}. Paste the .pub file's line.")
        return Person(login, (key,))

    def program(self) -> None:
        """Ask for environment, code and command."""
        choices = frameworks()
        framework = self.ask(
            *("framework", "Python environment", self._framework), LOCAL["framework"], choices
        )
        has_example = framework in EXAMPLES
        code = "." if not self.told["local"] else "example" if has_example else NONE
        example = "example = the bundled one, " if has_example else ""
        self.ask("code", f"Code (a git URL, a folder, {example}none)", self._code, code)
        is_example = self.answers.code and self.answers.code.example
        self.ask("command", COMMAND, self._command, EXAMPLE_COMMAND if is_example else NONE)
        while missing := self._missing_script():
            self.say(f"  {missing}")
            if self.confirm("script", "Use this command all the same?", "n"):
                break
            self.dialogue.question("command", lambda: typed(COMMAND), self._command)
        if self.answers.command:
            proposed = f"gs://{self.answers.proposed_bucket}/{self.answers.run}"
            text = "Checkpoints (gs://BUCKET/FOLDER, a folder, or none)"
            self.ask("checkpoints", text, self._checkpoints, proposed)

    def _missing_script(self) -> str:
        code = self.answers.code
        try:
            words = shlex.split(self.answers.command)
        except ValueError:
            return ""
        if not code or not code.folder or not words or not words[0].startswith("python"):
            return ""
        script = next((word for word in words[1:] if not word.startswith("-")), "")
        folder = installed(code.example) if code.example else self._place(code.folder)
        is_there = not script.endswith(".py") or (folder / script).exists()
        return "" if is_there else f"There is no {shown(script)} in {shown(folder)}."

    def _place(self, folder: str) -> Path:
        """Return a folder that is named from the inventory's on."""
        return Path(os.path.normpath(self._inventory / folder))

    def _framework(self, said: str) -> str:
        self.note(framework=said)
        return said

    def _code(self, said: str) -> None:
        try:
            self.note(code=None if said == NONE else self._code_of(said))
        except (OSError, RuntimeError, ValueError) as error:
            # A name that is too long, ~NAME of a user that does not exist, or a NUL.
            why = error.strerror if isinstance(error, OSError) else error
            raise WrongAnswer(f"{shown(said)} is neither a URL nor a folder: {why}.") from error

    def _code_of(self, said: str) -> Code:
        framework = self.answers.framework
        if said == "example":
            if framework not in EXAMPLES:
                raise WrongAnswer(f"There is no example for {framework}: name a URL or a folder.")
            return Code("example", "", "../example", True, EXAMPLES[framework])
        repo, folder = look.code_named(said, self._inventory)
        words = re.split(r"[/:]", (repo or str(Path(said).expanduser().resolve())).rstrip("/"))
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", words[-1].removesuffix(".git")).strip("-_")[:40]
        has_requirements = folder and (self._place(folder) / "requirements.txt").is_file()
        return Code(
            name if ENTRY_NAME.fullmatch(name) else "code",
            *(repo, folder),
            requirements=bool(has_requirements and framework != "none"),
        )

    def _command(self, said: str) -> None:
        self.note(command="" if said == NONE else said)

    def _checkpoints(self, said: str) -> None:
        if said != NONE and not said.startswith("/") and bucket_and_folder(said) is None:
            raise WrongAnswer(
                f"{shown(said)} is no bucket and no whole path. Write gs://BUCKET/FOLDER, a folder "
                "that begins with /, or none."
            )
        self.note(checkpoints="" if said == NONE else said)


def _local_cloud() -> tuple[str, str]:
    from .cloud import cloud_of_this_shell

    return cloud_of_this_shell()


def _key_of(file: str) -> str:
    """Return the public key in a file."""
    try:
        return Path(file).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, RuntimeError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise WrongAnswer(f"{shown(file)} cannot be read: {why}.") from error


def _account(github_url: str, word: str) -> Person:
    login, _sign, name = word.rpartition("=")
    try:
        keys = public_keys(github_url, name)
    except GitHubError as error:
        missing = f"GitHub has no account {shown(name)}."
        raise WrongAnswer(missing if error.status == 404 else shown(error)) from error
    if not keys:
        raise WrongAnswer(f"{name} has no public keys on GitHub. Leave {name} out for now.")
    person = Person(login or name.lower(), tuple(f"{key} {name}@github" for key in keys))
    if any(map(public_key, person.keys)):
        raise WrongAnswer(f"GitHub's answer for {name} is no key.")
    return person


def _comes_later(problem: Problem) -> bool:
    """Return whether a problem is only that both APIs have the type, which is asked for then."""
    return problem.field.endswith(".api") and problem.value is None


def _reason(problem: Problem) -> str:
    """Return a problem without the place in a file that is not there yet."""
    is_slice = re.fullmatch(r"fleet_slices\[\d+\]", problem.field)  # it may have no name yet
    about = "" if problem.value is None or is_slice else f"{shown(problem.value)}: "
    end = "?" if problem.remedy.startswith("Did you mean") else "."
    return f"{about}{shown(problem.message)}. {shown(problem.remedy)}{end}"


def _words(said: str) -> list[str]:
    """Return the people of an answer; a pasted key has blanks, names are set apart by them, too."""
    words: list[str] = []
    for part in map(str.strip, said.split(",")):
        is_key = re.match(r"[^\s=]+=(?:ssh-|ecdsa-|sk-)\S* \S", part)
        words += [part] if is_key else part.split()
    return words


def _own_name() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        return ""
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
