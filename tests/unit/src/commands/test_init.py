"""The dialogue that makes a first fleet, and the files that come of it."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sys
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import click
import jsonschema
import pexpect
import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar
from ansible_collections.tpu.fleet.plugins.action import fleet_check
from ansible_collections.tpu.fleet.plugins.module_utils._github.client import GitHubError
from ansible_collections.tpu.fleet.plugins.module_utils._schema.values import public_key
from ansible_collections.tpu.fleet.plugins.plugin_utils._core.refused import Refused
from click.testing import CliRunner, Result
from fleet import wait_until
from hostile import KINDS, controls

from tpu_fleet.begin.files import SCHEMA
from tpu_fleet.cli import main
from tpu_fleet.commands import cloud, interview
from tpu_fleet.commands import init as command

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
MAIL = """\
Congratulations, you have free access for 30 days to
 * 32 on-demand Cloud TPU v4 chips in zone us-central2-b
 * 5 on-demand Cloud TPU v3-8 device(s) in zone europe-west4-a
 * 64 spot Cloud TPU v5e chips in zone us-central1-a
"""
FLEET = Path("lab/inventory/group_vars/all/fleet.yml")
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run init in an empty folder of a user who has nothing, at a terminal or not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in list(os.environ):
        if name.startswith(("CLOUDSDK_", "GOOGLE_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(interview.getpass, "getuser", lambda: "alice")
    monkeypatch.setattr(interview, "public_keys", accounts)
    # Whatever else this computer has at the local cloud's port.
    monkeypatch.setattr(cloud, "endpoint_of_new", lambda default: default)

    def invoke(*words: str, answers: str | bytes | None = None, **more: Any) -> Result:
        monkeypatch.setattr(command, "is_person", lambda: answers is not None)
        return CliRunner().invoke(main, ["init", *words], input=answers or "", **more)

    return invoke


def accounts(_url: str, name: str) -> list[str]:
    if name == "nobody":
        raise GitHubError("GitHub answered 404", "Check it", 404)
    return [] if name == "keyless" else [KEY, KEY] if name == "twice" else [KEY]


def answered(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def check(fleet: Path) -> str:
    """Return why the module fleet_check refuses a file, as a play runs it; empty if it is right."""
    variables = {
        **DataLoader().load_from_file(str(fleet), trusted_as_template=True),
        "fleet_ssh_public_key": KEY,
        "inventory_dir": str(fleet.resolve().parents[2]),
    }
    task = Task()
    task.action, task.args = "tpu.fleet.fleet_check", {}
    action = fleet_check.ActionModule(
        task=task,
        connection=mock.Mock(transport="local"),
        play_context=mock.Mock(),
        loader=DataLoader(),
        templar=Templar(loader=DataLoader(), variables=variables),
        shared_loader_obj=None,
    )
    with mock.patch.object(fleet_check, "facts_are_variables", return_value=False):
        try:
            action.run(task_vars=variables)
        except Refused as refused:
            return str(refused)
    return ""


def variables_of(fleet: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(fleet.read_text())
    return found


def test_all_answers_of_a_person(run: Run) -> None:
    Path("code").mkdir()
    Path("code/requirements.txt").write_text("optax\n")
    Path("code/train.py").touch()
    answers = answered(
        *("lab", "my-project", "", "mail", *MAIL.splitlines(), ".", "2027-01-01"),
        *(
            "3",
            "v5litepod-8",
            "first",
            "alice",
            "Octocat, cat=hubot",
            "y",
            "jax",
            "code",
            "python t.py",
            "n",
            "python train.py",
            "gs://lab/first",
        ),
        "y",
    )
    result = run(answers=answers)
    assert result.exit_code == 0, result.output
    data = variables_of(FLEET)
    assert [str(entry["ends"]) for entry in data["fleet_allocations"]] == ["2027-01-30"] * 3
    assert data["fleet_slices"] == [
        {
            "name": "first",
            "accelerator_type": "v5litepod-8",
            "zone": "us-central1-a",
            "tier": "spot",
            "on_grant_end": "delete",
        }
    ]
    people = {user["name"]: user for user in data["fleet_users"]}
    assert list(people) == ["alice", "octocat", "cat"]
    assert people["octocat"]["keys"] == [f"{KEY} Octocat@github"]
    assert people["alice"]["keys"] == ["{{ fleet_ssh_public_key }}"]
    assert data["fleet_venvs"][0]["requirements"] == "code/requirements.txt"
    assert data["fleet_code"][0]["local_path"] == "../../code"
    assert "There is no t.py in" in result.output
    assert data["fleet_runs"][0]["command"] == "python train.py"
    assert data["fleet_runs"][0]["checkpoint_dir"] == "gs://lab/first"
    assert (people["alice"]["sudo"], "sudo" in people["cat"]) == ("all", False)
    assert "The grant ends on 2027-01-30; what still exists after it costs money" in result.output
    assert yaml.safe_load(Path("lab/inventory/fleet.tpu.yml").read_text()) == {
        "plugin": "tpu.fleet.tpu",
        "projects": ["my-project"],
        "owner": "managed",
    }
    # Shown before it is written, keys too.
    assert FLEET.read_text().rstrip() in result.output
    assert "octocat: ssh-ed25519 SHA256:" in result.output.partition("Use these keys?")[0]
    assert check(FLEET) == ""


@pytest.mark.parametrize(
    ("said", "last"),
    [
        ("30 天", date.today() + timedelta(days=29)),
        ("30 days", date.today() + timedelta(days=29)),
        ("28 November 2099", date(2099, 11, 28)),
        ("Jan 31, 2099", date(2099, 1, 31)),
    ],
)
def test_the_last_day_is_understood_and_shown(run: Run, said: str, last: date) -> None:
    result = run(
        answers=answered(
            *("lab", "my-project", "", "typed", "us-central2-b", "on_demand", "v4-8"),
            *(said, "2", "first", "alice", "none", "jax", "none", "sleep 1", "", "y"),
        )
    )
    assert result.exit_code == 0, result.output
    # The test may begin before midnight and end after it.
    days = {last, last + timedelta(days=1)}
    [entry] = yaml.safe_load(FLEET.read_text())["fleet_allocations"]
    assert entry["ends"] in days
    assert f"That is {entry['ends']}." in result.output


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({1: "My Project"}, "is not a project id. Give the project id"),
        ({2: "My Label"}, "cannot be a label's value. Use lower case"),
        ({3: "gift"}, "'gift' is none of mail, typed, unrestricted."),
        ({4: "us-central2"}, "is a region, not a zone. Zones look like"),
        ({5: "sometimes"}, "'sometimes' is none of on_demand"),
        ({6: "v4-17"}, "is not a known accelerator type. Did you mean v4-16?"),
        ({7: "soon"}, "'soon' is not a date and not a number of days. Write it as 2026-12-31,"),
        ({7: "3/4/2027"}, "Write it as 2026-12-31, 31 Dec 2026, Dec 31 or today, as 30 days"),
        ({8: "0"}, "is less than one"),
        ({8: "many"}, "'many' is not a whole number."),
        ({9: "First"}, "is not a name for a TPU"),
        ({10: "root"}, "belongs to the system of every machine"),
        ({11: "nobody"}, "GitHub has no account nobody."),
        ({11: "keyless"}, "keyless has no public keys on GitHub"),
        ({11: "4real"}, "is not a user name that Linux takes"),
        ({11: "4real"}, "Another login is given as LOGIN=NAME."),
        ({12: "tensorflow"}, "is none of jax"),
        ({13: "nowhere"}, "is not there"),
        ({13: "https://bob:secret@example.org/x.git"}, "has a password or token"),
        ({14: "echo {{ x }}"}, "Ansible would evaluate this as a template"),
    ],
)
def test_a_wrong_answer_is_asked_again_with_the_reason(
    run: Run, wrong: dict[int, str], reason: str
) -> None:
    right = (
        *("lab", "my-project", "", "typed", "us-central2-b", "on_demand", "v4-8"),
        *("2027-01-31", "2", "first", "alice", "none", "jax", "none", "sleep 1", "", "y"),
    )
    lines = [
        line for i, one in enumerate(right) for line in [*([wrong[i]] if i in wrong else []), one]
    ]
    result = run(answers=answered(*lines))
    assert reason in " ".join(result.output.split())
    assert result.exit_code == 0, result.output
    assert "secret" not in FLEET.read_text()
    assert check(FLEET) == ""


def test_a_slice_beyond_the_mail_is_asked_again(run: Run) -> None:
    result = run(
        *(
            "lab",
            "--project",
            "my-project",
            "--owner",
            "managed",
            "--yes",
            "--user",
            "alice",
            "--people",
            "none",
        ),
        *("--framework", "none", "--code", "none", "--command", "none", "--slice", "big"),
        answers=answered("mail", *MAIL.splitlines(), ".", "2027-01-01", "1", "v4-128", "v4-64"),
    )
    assert "is outside of the grant" in result.output
    # The slice has no name yet, whatever the checks call it.
    said = result.output.partition("v4-128")[2].partition("v4-64")[0]
    assert "leaves the grant" not in said
    assert "first" not in said
    assert variables_of(FLEET)["fleet_slices"][0]["accelerator_type"] == "v4-64"


def test_unclear_lines_of_a_mail_are_shown_and_never_guessed(run: Run) -> None:
    answers = answered(
        *("mail", "16 v4 in us-central2-b", "8 on-demand Cloud TPU v4 chips in us-central2-b"),
        *(".", "n", "8 on-demand Cloud TPU v4 chips in us-central2-b", ".", "never", ""),
    )
    result = run(
        *(
            "lab",
            "--project",
            "my-project",
            "--owner",
            "managed",
            "--user",
            "alice",
            "--people",
            "none",
            "--slice",
            "a",
        ),
        *("--framework", "none", "--code", "none", "--command", "none"),
        answers=answers + "y\n",
    )
    assert "16 v4 in us-central2-b" in result.output
    assert result.exit_code == 0, result.output
    assert [entry["chips"] for entry in variables_of(FLEET)["fleet_allocations"]] == [8]


def test_which_api_is_asked_where_both_have_the_type(run: Run) -> None:
    words = (
        *(
            "lab",
            "--project",
            "my-project",
            "--owner",
            "managed",
            "--grant",
            "unrestricted",
            "--zone",
            "us-east5-a",
        ),
        *("--type", "v6e-8", "--user", "alice", "--people", "none", "--framework", "none"),
        *("--code", "none", "--command", "none", "--yes", "--slice", "a", "--tier", "spot"),
    )
    result = run(*words, answers="compute\n")
    assert result.exit_code == 0, result.output
    assert variables_of(FLEET)["fleet_slices"][0]["api"] == "compute"


def test_a_typed_grant_is_for_the_api_of_its_slice(run: Run) -> None:
    more = {"grant": "typed", "zone": "us-east5-a", "type": "v6e-8", "api": "compute"}
    result = run("lab", *options_of(**more, count="2", ends="2027-01-31"), "--yes")
    assert result.exit_code == 0, result.output
    assert variables_of(FLEET)["fleet_allocations"] == [
        {
            "zone": "us-east5-a",
            "accelerator_type": "v6e-8",
            "tier": "spot",
            "count": 2,
            "ends": date(2027, 1, 31),
            "api": "compute",
        }
    ]
    assert check(FLEET) == ""


def test_without_a_terminal_all_that_is_missing_is_named(run: Run) -> None:
    result = run("lab", "--project", "my-project", "--zone", "us-central2-b")
    assert result.exit_code == 2
    assert "Missing: --grant or --grant-mail, --type, --user or --people, --code" in result.output
    assert "--yes" in result.output
    assert not Path("lab").exists()


def test_a_wrong_option_is_refused_with_the_reason(run: Run) -> None:
    result = run("lab", "--local", "--yes", "--zone", "us-central2")
    assert result.exit_code == 2
    assert "--zone us-central2" in result.output
    assert "is a region, not a zone" in result.output
    assert not Path("lab").exists()


def test_everything_has_a_default_for_the_local_cloud(run: Run) -> None:
    result = run("lab", "--local", "--yes")
    assert result.exit_code == 0, result.output
    assert check(FLEET) == ""
    assert "tpu-fleet cloud up" in result.output
    assert "api_endpoint: http://127.0.0.1:8470/" in Path("lab/inventory/fleet.tpu.yml").read_text()


def test_at_a_real_terminal(tmp_path: Path) -> None:
    program = str(Path(sys.executable).parent / "tpu-fleet")
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "USER": "alice"}
    at = pexpect.spawn(
        program, ["init", "--local"], cwd=str(tmp_path), env=env, encoding="utf-8", timeout=30
    )
    for question, said in [
        ("Folder for the files of the fleet", "lab"),
        ("Owner", ""),
        ("Zone", "us-central2"),
        ("is a region, not a zone.*Zone .us-central2-b", ""),
        ("Tier", ""),
        ("Accelerator type", ""),
        ("How many v4-8", ""),
        ("Name of the first slice", ""),
        ("Your login", "alice"),
        ("Other people", ""),
        ("Python environment", ""),
        ("Code", ""),
        ("Command", ""),
        ("Checkpoints", ""),
        ("Write these files", "y"),
    ]:
        at.expect(f"(?s){question}.*: ")
        at.sendline(said)
    at.expect(pexpect.EOF)
    at.close()
    assert at.exitstatus == 0
    assert check(tmp_path / FLEET) == ""


def test_a_second_fleet_in_a_project_gets_another_owner(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = (["old (v4-8, us-central2-b): READY"], {"managed"})
    monkeypatch.setattr(interview.look, "nodes_there", lambda *_: there)
    result = run("lab", "--local", "--yes", "--api-endpoint", "http://127.0.0.1:9/")
    assert "old (v4-8, us-central2-b): READY" in result.output
    assert "owner: alice\n" in Path("lab/inventory/fleet.tpu.yml").read_text()


def test_no_file_is_ever_overwritten(run: Run) -> None:
    place = Path("lab/inventory/fleet.tpu.yml")
    place.parent.mkdir(parents=True)
    place.write_text("mine")
    result = run("lab", "--local", "--yes")
    assert result.exit_code == 1
    assert "lab has inventory/fleet.tpu.yml already" in result.output
    assert place.read_text() == "mine"
    assert [path for path in Path("lab").rglob("*") if path.is_file()] == [place]


def test_a_link_that_leads_nowhere_counts_as_a_file(run: Run) -> None:
    Path("lab").mkdir()
    Path("lab/ansible.cfg").symlink_to("/nowhere/at/all")
    assert run("lab", "--local", "--yes").exit_code == 1


def test_the_settings_of_an_editor_stay_as_they_are(run: Run) -> None:
    Path("lab/.vscode").mkdir(parents=True)
    Path("lab/.vscode/settings.json").write_text("{}")
    result = run("lab", "--local", "--yes")
    assert result.exit_code == 0
    assert "stays as it was" in result.output
    assert Path("lab/.vscode/settings.json").read_text() == "{}"


def test_nothing_is_written_when_somebody_declines(run: Run) -> None:
    result = run("lab", "--local", answers="\n" * 11 + "n\n")
    assert "Nothing was written" in result.output
    assert result.exit_code == 1
    assert not Path("lab").exists()


def test_keys_that_are_declined_are_not_taken(run: Run) -> None:
    answers = answered("octocat", "n", "none", *[""] * 4)
    words = ("lab", "--local", "--owner", "a", "--grant", "unrestricted", "--slice", "a", "--zone")
    more = ("us-central2-b", "--tier", "spot", "--type", "v4-8", "--user", "alice")
    result = run(*words, *more, answers=answers + "y\n")
    assert result.exit_code == 0, result.output
    assert [user["name"] for user in variables_of(FLEET)["fleet_users"]] == ["alice"]


@pytest.mark.parametrize("answer", ["no key at all", "ssh-ed25519 !!!", "ssh-ed25519", ""])
def test_what_is_no_key_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setattr(interview, "public_keys", lambda *_: [answer])
    result = run("lab", "--local", "--yes", "--people", "octocat")
    assert result.exit_code == 2, result.output
    assert not Path("lab").exists()


def some_answers(seed: int) -> tuple[list[str], str]:
    """Return options and answers of a user, chosen by a seed."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    kind = chance.choice(["mail", "typed", "unrestricted"])
    folder = Path(chance.choice(["code", "deep/er code", "."]))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "t.py").touch()
    if chance.random() < 0.5:
        (folder / "requirements.txt").touch()
    options = ["lab", "--checkpoints", chance.choice(["none", "gs://lab/x"])]
    lines = []

    def say(option: str, value: str) -> None:
        if chance.random() < 0.5:
            options.extend([f"--{option}", value])
        else:
            lines.append(value)

    say("project", chance.choice(["my-project", "example.org:lab-17", "123456789"]))
    say("owner", chance.choice(["managed", "alice-2", "on", "7"]))
    mail = [line for line in MAIL.splitlines() if chance.random() < 0.7] + [MAIL.splitlines()[1]]
    mail = list(dict.fromkeys(mail))
    granted = [line for line in mail if "Cloud" in line]
    days = mail[0].startswith("Congratulations")
    say("grant", kind)
    if kind == "mail":
        lines += [*mail, "."]
        if days:
            say("first-day", "2027-02-28")
        else:
            say("ends", chance.choice(["never", "2027-02-28"]))
        if len(granted) > 1:
            say("line", str(chance.randint(1, len(granted))))
        lines.append("")
    else:
        say("zone", chance.choice(["us-central2-b", "europe-west4-a"]))
        say("tier", chance.choice(["on_demand", "spot", "reserved"]))
        say("type", kind_of_tpu := chance.choice(["v4-8", "v4-32", "v6e-16", "v2-8"]))
        if kind_of_tpu.startswith("v6e"):
            say("api", chance.choice(["tpu", "compute"]))
        if kind == "typed":
            say("ends", chance.choice(["never", "2027-02-28"]))
            say("count", str(chance.randint(1, 100)))
    say("slice", chance.choice(["a", "first", "on", "x" * 63, "null", "v4-8"]))
    say("user", chance.choice(["alice", "bob_7", "_x", "true", "on"]))
    names = chance.choice(["none", "octocat", "Octocat,hubot", "yes=octocat no=hubot"])
    say("people", names)
    lines += ["y"] if names != "none" else []
    framework = chance.choice(["jax", "torch_xla", "torch_tpu", "none"])
    say("framework", framework)
    places = [
        "none",
        str(folder),
        "https://github.com/example/m.git",
        "git@example.org:lab/m 2.git",
    ]
    code = chance.choice([*places, *(["example"] if framework in interview.EXAMPLES else [])])
    say("code", code)
    say(
        "command",
        "python train.py"
        if code == "example"
        else chance.choice(["none", "python t.py --x 'a: b' # c", "yes", '"$HOME/ü" & x', "- 1"]),
    )
    return options, answered(*lines, "y")


@pytest.mark.parametrize("seed", range(50))
def test_the_files_of_any_answers_pass_the_check(run: Run, seed: int) -> None:
    options, answers = some_answers(seed)
    result = run(*options, answers=answers)
    assert result.exit_code == 0, result.output
    assert check(FLEET) == ""
    data = variables_of(FLEET)
    assert all(public_key(key) is None for u in data["fleet_users"][1:] for key in u["keys"])
    schema = json.loads(SCHEMA.read_text())
    assert list(jsonschema.Draft7Validator(schema).iter_errors(data)) == []
    place = yaml.safe_load(Path("lab/inventory/fleet.tpu.yml").read_text())
    assert all(isinstance(text, str) for text in [place["owner"], *place["projects"]])


# Text of others


GIVEN = {
    "project": "my-project",
    "owner": "managed",
    "grant": "unrestricted",
    "zone": "us-central2-b",
    "tier": "spot",
    "type": "v4-8",
    "slice": "first",
    "user": "alice",
    "people": "none",
    "framework": "jax",
    "code": "none",
    "command": "none",
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def options_of(**more: str) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in {**GIVEN, **more}.items()]


def harmless(result: Result) -> dict[str, Any] | None:
    """See that a text was refused, or is nothing but a text in the files; return the variables."""
    # As a terminal gets it; what somebody typed is not in it.
    assert controls(result.output, "\n\t") == []
    if not Path("lab").exists():
        assert (result.exit_code, "Traceback" in result.output) == (2, False), result.exception
        return None
    assert result.exit_code == 0, result.output
    for file in (FLEET, Path("lab/inventory/fleet.tpu.yml")):
        written = file.read_text(encoding="utf-8")
        assert controls(written) == []
        marks = written.replace("{{ fleet_ssh_public_key }}", "")
        assert not any(mark in marks for mark in ("{{", "{%", "{#"))
    data = variables_of(FLEET)
    assert data.keys() <= {
        *("fleet_allocations", "fleet_slices", "fleet_users", "fleet_venvs"),
        *("fleet_code", "fleet_checkpoint_buckets", "fleet_runs"),
    }
    place = yaml.safe_load(Path("lab/inventory/fleet.tpu.yml").read_text())
    assert place.keys() <= {"plugin", "projects", "owner", "api_endpoint"}
    # Ansible reads it with another parser.
    assert DataLoader().load_from_file(str(FLEET)) == data
    shutil.rmtree("lab")
    return data


@every_kind
def test_no_option_becomes_anything_but_a_text(run: Run, kind: str) -> None:
    text = KINDS[kind]
    for name in (*GIVEN, "api_endpoint"):
        if name == "command":
            continue
        harmless(run("lab", *options_of(**{name: text}), "--yes"))
    harmless(run("lab", *options_of(code=f"https://example.org/{text}.git"), "--yes"))
    for more in (text, f"python t.py {text}"):
        data = harmless(run("lab", *options_of(command=more), "--yes"))
        refused = kind in ("template", "statement of a template", "no UTF-8")
        assert (data is None) is refused
        assert data is None or data["fleet_runs"][0]["command"] == more


@every_kind
def test_no_folder_is_called_what_hides(run: Run, kind: str) -> None:
    result = run(f"lab/{KINDS[kind][:100]}", *options_of(), "--yes")
    assert controls(result.output, "\n\t") == []
    assert result.exit_code == (0 if KINDS[kind].isprintable() else 1), result.output


@every_kind
def test_keys_of_others_become_nothing_but_keys(
    run: Run, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = f"{KEY} {KINDS[kind]}"
    Path("key").write_bytes(key.encode("utf-8", "surrogatepass"))
    for words in (["--key=key"], [], ["--people=octocat"]):
        monkeypatch.setattr(interview, "public_keys", lambda *_: [key])
        home = Path("home/.ssh")
        home.mkdir(parents=True, exist_ok=True)
        (home / "id.pub").write_bytes(Path("key").read_bytes())
        data = harmless(run("lab", *options_of(), *words, "--yes"))
        for user in data["fleet_users"] if data else ():
            for taken in user["keys"]:
                ours = taken == "{{ fleet_ssh_public_key }}"
                assert ours or (taken.startswith(KEY) and public_key(taken) is None)


@every_kind
def test_a_mail_becomes_nothing_but_a_grant(run: Run, kind: str) -> None:
    text = KINDS[kind].encode("utf-8", "surrogatepass")
    first, *lines = MAIL.encode().splitlines()
    options = [one for one in options_of() if not one.startswith(("--grant", "--zone", "--tier"))]
    for mail in (
        [first, text, *lines],
        [first + text, *lines],
        [first, lines[0] + text, *lines[1:]],
        [first, lines[0].replace(b"us-central2-b", text), *lines[1:]],
    ):
        Path("mail").write_bytes(b"\n".join(mail))
        more = ["--grant-mail=mail", "--first-day=2027-01-01", "--line=1"]
        data = harmless(run("lab", *options, *more, "--yes"))
        assert data is None or len(data["fleet_allocations"]) == 3


@every_kind
def test_what_is_typed_becomes_nothing_but_a_text(run: Run, kind: str) -> None:
    text = " ".join(re.split("[\r\n]", KINDS[kind]))  # what ends a line is another answer
    asked = ("project", "slice", "user", "code", "command")
    options = [one for one in options_of() if not one.startswith(tuple(f"--{a}" for a in asked))]
    right = ("my-project", "first", "alice", "none", "none")
    answers = "".join(f"{text}\n{one}\n" for one in right)
    result = run("lab", *options, "--yes", answers=answers.encode("utf-8", "surrogatepass"))
    assert result.exit_code == 0, result.output
    assert controls(FLEET.read_text(encoding="utf-8")) == []
    assert variables_of(FLEET)["fleet_slices"][0]["name"] == "first"


# Back, help, and ends of input


def test_an_earlier_answer_is_changed(run: Run) -> None:
    answers = answered(
        *("lab", "my-project", "", "mail", "<", "typed", "us-central2-b", "", "v4-8", "never"),
        *("2", "first", "<", "<", "<", "2027-01-31", "3", "first", "alice", "none", "none"),
        *("none", "sleep 1", "<", "<", "none", "sleep 2", "", "y"),
    )
    result = run(answers=answers)
    assert result.exit_code == 0, result.output
    data = variables_of(FLEET)
    (entry,) = data["fleet_allocations"]
    assert (str(entry["ends"]), entry["count"]) == ("2027-01-31", 3)
    assert data["fleet_slices"][0]["on_grant_end"] == "delete"
    assert data["fleet_runs"][0]["command"] == "sleep 2"
    # What is repeated is not shown once more.
    assert result.output.count("Project id") == 1
    assert result.output.count("Step 1 of 4") == 1


@pytest.mark.parametrize(
    ("answers", "times"),
    [
        (("my-project", "a", "unrestricted", "<", "unrestricted"), 1),
        (("my-project", "<", "my-project"), 2),
    ],
)
def test_nodes_are_listed_again_only_for_a_project_that_is_typed_again(
    run: Run, monkeypatch: pytest.MonkeyPatch, answers: tuple[str, ...], times: int
) -> None:
    listed: list[str] = []

    def nodes_there(project: str, _endpoint: str) -> tuple[list[str], set[str]]:
        listed.append(project)
        return ["old (v4-8, us-central2-b): READY"], set()

    monkeypatch.setattr(interview.look, "nodes_there", nodes_there)
    result = run("lab", "--api-endpoint", "http://127.0.0.1:9/", answers=answered(*answers))
    assert listed == ["my-project"] * times
    assert result.output.count("old (v4-8, us-central2-b): READY") == times


@pytest.mark.parametrize("wrong", ["gs://", "gs://a/b", "gs://Lab/b", "mnt/b", "lab"])
def test_what_is_no_bucket_is_asked_again(run: Run, wrong: str) -> None:
    right = ("lab", "my-project", "", "typed", "us-central2-b", "spot", "v6e-8", "tpu", "never")
    more = ("2", "first", "alice", "octocat", "y", "jax", "none", "sleep 1", wrong, "gs://lab/b")
    result = run(answers=answered(*right, *more, "y"))
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert f"{wrong} is no bucket and no whole path. Write gs://BUCKET/FOLDER, a folder" in said


def test_every_question_explains_itself(run: Run) -> None:
    right = ("lab", "my-project", "", "typed", "us-central2-b", "spot", "v6e-8", "tpu", "never")
    more = ("2", "first", "alice", "octocat", "y", "jax", "none", "sleep 1", "gs://lab/b", "y")
    first, *others = (*right, *more)
    result = run(answers=answered(first, *(line for one in others for line in ("?", one))))
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    asked = set(interview.EXPLAINED) - {"mail", "go-on", "first-day", "line", "script"}
    assert [name for name in asked if interview.EXPLAINED[name] not in said] == []


def test_the_first_question_has_nothing_before_it(run: Run) -> None:
    result = run("lab", "--local", answers=answered("<", *[""] * 12, "y"))
    assert "This is the first question." in result.output
    assert result.exit_code == 0, result.output


def test_ctrl_d_ends_a_pasted_mail_and_loses_nothing(tmp_path: Path) -> None:
    program = str(Path(sys.executable).parent / "tpu-fleet")
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "USER": "alice"}
    words = ["init", "lab", "--project", "my-project", "--owner", "a", "--grant", "mail"]
    at = pexpect.spawn(program, words, cwd=str(tmp_path), env=env, encoding="utf-8", timeout=60)
    at.expect("Paste the mail")
    at.send(MAIL)
    at.sendeof()
    at.expect("First of the 30 days")
    at.sendeof()
    at.expect("Ctrl-D ends a pasted text. Press it again")
    at.sendline("today")
    at.expect("Line of the grant")
    # Python notices an interrupt between the question and the read only at the next key.
    wait_until("the program sleeps in its read", lambda: state_of(at.pid) == "S", 60)
    at.sendintr()
    at.expect("Nothing was written. To go on from here: .*--first-day today")
    at.expect("Aborted!")
    at.close()
    assert not (tmp_path / "lab").exists()


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, click.Abort])
def test_an_interrupt_beside_the_questions_keeps_the_answers_too(
    run: Run, monkeypatch: pytest.MonkeyPatch, interrupt: type[BaseException]
) -> None:
    monkeypatch.setattr(command, "show", mock.Mock(side_effect=interrupt))
    result = run("lab", *options_of(), "--yes")
    assert result.exit_code == 1
    assert "Nothing was written. To go on from here: tpu-fleet init lab --pro" in result.output


def test_nothing_is_broken_within_a_word(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    result = run("lab", "--local", answers=answered("?", "", "no such zone", *[""] * 11, "n"))
    text = result.output.partition("-----")[0]
    assert max(map(len, text.splitlines())) <= 60
    assert "cheaper" not in text
    assert "a second fleet in the same project needs another one." in " ".join(text.split())


def test_all_of_it_fits_80_columns(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    local = run("lab", "--local", answers=answered(*["?", ""] * 13))
    told = ["big", "my-project", "", "mail", *MAIL.splitlines(), ".", "2027-01-01", "3", "", "a"]
    grant = run(answers=answered(*told, "alice", "octocat", "y", "jax", "example", *["?", ""] * 3))
    assert (local.exit_code, grant.exit_code) == (0, 0), local.output + grant.output
    written = [*Path().glob("*/inventory/**/*.yml"), *Path().glob("*/ansible.cfg")]
    assert len(written) == 6
    shown = [local.output, grant.output, *(path.read_text() for path in written)]
    lines = [line for text in shown for line in text.splitlines()]
    # What a person gave is not broken.
    assert [line for line in lines if len(line) > 80 and KEY not in line] == []
    assert any(len(line) > 75 for line in lines)


def test_what_a_step_is_for_stands_above_where_it_is_long() -> None:
    steps = [("cd lab", ""), ("tpu-fleet apply", "w" * 40), ("tpu-fleet top", "w " * 40)]
    assert command.lines_of(steps) == [
        "  cd lab",
        f"  tpu-fleet apply  # {'w' * 40}",
        f"  # {'w ' * 37}w\n  w w",
        "  tpu-fleet top",
    ]


# People


@pytest.mark.parametrize(
    ("said", "people"),
    [
        (f"bob={KEY} bob@lab", {"bob": f"{KEY} bob@lab"}),
        (f"bob={KEY}, octocat", {"bob": KEY, "octocat": f"{KEY} octocat@github"}),
        ("b=octocat c", {"b": f"{KEY} octocat@github", "c": f"{KEY} c@github"}),
    ],
)
def test_a_key_of_another_person_can_be_pasted(run: Run, said: str, people: dict[str, str]) -> None:
    result = run("lab", "--local", "--yes", "--user", "alice", "--people", said)
    assert result.exit_code == 0, result.output
    users = variables_of(FLEET)["fleet_users"]
    assert {user["name"]: user["keys"][0] for user in users[1:]} == people
    assert [user.get("sudo") for user in users] == ["all", *[None] * len(people)]


def test_a_key_of_another_person_can_be_in_a_file(run: Run) -> None:
    Path("bob.pub").write_text(f"{KEY} bob@lab\n")
    result = run("lab", "--local", "--yes", "--user", "alice", "--people", "bob=bob.pub")
    assert result.exit_code == 0, result.output
    assert f"{KEY} bob@lab" in FLEET.read_text()


@pytest.mark.parametrize(
    ("text", "reason"),
    [(None, "No such file"), ("", "The key of bob"), ("PRIVATE KEY", "The key of bob")],
)
def test_a_file_without_a_key_is_refused(run: Run, text: str | None, reason: str) -> None:
    if text is not None:
        Path("bob.pub").write_text(text)
    result = run("lab", "--local", "--yes", "--people", "bob=bob.pub")
    assert result.exit_code == 2
    assert reason in " ".join(result.output.split())
    assert not Path("lab").exists()


def test_a_cut_key_is_refused(run: Run) -> None:
    result = run("lab", "--local", "--yes", "--people", f"bob={KEY[:50]} bob@lab")
    assert result.exit_code == 2
    assert "The key of bob is cut or damaged" in " ".join(result.output.split())


# The local cloud, the repository, what comes next


def test_the_local_cloud_is_that_of_the_shell(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path("cloud")
    folder.mkdir()
    config = {"host": "127.0.0.1", "port": 8670, "project": "other-project"}
    (folder / "config.json").write_text(json.dumps(config))
    monkeypatch.setenv("TPU_FLEET_CLOUD_DIR", str(folder.resolve()))
    result = run("lab", "--local", "--yes")
    place = yaml.safe_load(Path("lab/inventory/fleet.tpu.yml").read_text())
    assert place["api_endpoint"] == "http://127.0.0.1:8670/"
    assert place["projects"] == ["other-project"]
    assert "tpu-fleet cloud up --install --port 8670" in result.output


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("git clone git@github.com:x/y.git", "leave out `git clone`"),
        ("git@github.com/x/y.git", "Write git@github.com:x/y.git"),
    ],
)
def test_what_is_no_address_of_a_repository(run: Run, code: str, reason: str) -> None:
    result = run("lab", *options_of(code=code), "--yes")
    assert result.exit_code == 2
    assert reason in " ".join(result.output.split())


def test_the_example_is_copied_and_belongs_to_the_user(run: Run) -> None:
    result = run("lab", "--local", "--yes")
    assert variables_of(FLEET)["fleet_code"] == [
        {"name": "example", "user": "root", "local_path": "../example"}
    ]
    copied = {path.name for path in Path("lab/example").iterdir()}
    assert copied == {"accelerator.py", "checkpoints.py", "requirements.txt", "train.py"}
    assert "lab/example/train.py" in " ".join(result.output.split())
    # No place of the installation is in a file.
    assert str(interview.installed("")).rstrip("/") not in FLEET.read_text()
    assert check(FLEET) == ""


def test_a_repository_is_read_with_the_keys_of_the_author(run: Run) -> None:
    run("lab", *options_of(code="git@github.com:lab/private.git"), "--yes")
    assert variables_of(FLEET)["fleet_code"][0]["user"] == "alice"


def test_what_comes_next_logs_gcloud_and_programs_in(run: Run) -> None:
    result = run("lab", *options_of(), "--yes")
    steps = [
        line.split("#")[0].strip() for line in result.output.partition("Next:")[2].splitlines()
    ]
    assert [step for step in steps if step][1:6] == [
        "gcloud auth login --update-adc",
        "gcloud config set project my-project",
        "gcloud auth application-default set-quota-project my-project",
        "tpu-fleet project setup --only apis",
        "tpu-fleet doctor",
    ]


@pytest.mark.parametrize(
    ("said", "bucket", "folder"),
    [
        ("", "my-project-checkpoints", "gs://my-project-checkpoints/train"),
        ("gs://my-project-checkpoints/x", "my-project-checkpoints",
         "gs://my-project-checkpoints/x"),
        ("gs://lab/x", "", "gs://lab/x"),
        ("/mnt/checkpoints", "", "/mnt/checkpoints"),
        ("none", "", None),
    ],
)  # fmt: skip
def test_checkpoints_go_into_a_new_bucket_unless_another_place_is_said(
    run: Run, said: str, bucket: str, folder: str | None
) -> None:
    words = options_of(command="sleep 1", framework="jax", checkpoints=said)
    result = run("lab", *words, "--yes")
    assert result.exit_code == 0, result.output
    data = variables_of(FLEET)
    made = [one["name"] for one in data.get("fleet_checkpoint_buckets", [])]
    assert made == ([bucket] if bucket else [])
    assert data["fleet_runs"][0].get("checkpoint_dir") == folder
    needs = (folder or "").startswith("gs://")
    assert data["fleet_venvs"][0].get("packages", []) == (
        ["gcsfs", "google-cloud-storage"] if needs else []
    )
    assert check(FLEET) == ""


def test_a_preemption_that_deletes_checkpoints_is_said(run: Run) -> None:
    result = run("lab", *options_of(command="sleep 1", checkpoints="none"), "--yes")
    assert "a preemption deletes this disk" in " ".join(result.output.split())
    result = run("two", *options_of(command="sleep 1", checkpoints="gs://lab/x"), "--yes")
    assert "a preemption deletes this disk" not in " ".join(result.output.split())
