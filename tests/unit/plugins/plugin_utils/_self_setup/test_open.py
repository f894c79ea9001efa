"""What of a host's variables is published for machines that set themselves up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._google.storage import Folder
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply.wish import Common, Given, order
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import by_all_names
from ansible_collections.tpu.fleet.plugins.plugin_utils._self_setup import (
    publish as self_setup_publish,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._self_setup.open import (
    Raw,
    open_tools,
    opened,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._self_setup.publish import Slice, publish

OPTIONS = by_all_names()


class Encrypted(str):
    """Stands for what a vault holds."""

    __slots__ = ()


def encrypted(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(encrypted, value.values()))
    return isinstance(value, Encrypted) or (isinstance(value, list) and any(map(encrypted, value)))


def shown(
    values: dict[str, Any], becomes: dict[str, Any] | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Open what is written; `becomes` is what Ansible makes of it."""

    def read(name: str) -> Any:
        found = {**values, **(becomes or {})}[name]
        if found is None:
            raise ValueError(name)
        return found

    given = Given(values, {}, {})
    kept, without = opened(given, Raw(values, OPTIONS, encrypted, read))
    return {**kept.templates, **kept.plain}, without


@pytest.mark.parametrize(
    ("values", "becomes", "published", "without"),
    [
        # What is no secret stays as it is, templates too.
        ({"fleet_base_packages": ["{{ x }}"], "x": "jq"}, {}, None, []),
        # What secrets are made of is not published, and neither is what else is made of it.
        (
            {
                "fleet_secrets": [{"name": "a", "env": {"A": "{{ mine }}"}}],
                "mine": "{{ deeper }}",
                "deeper": "hush",
                "fleet_base_packages": ["{{ deeper }}"],
                "fleet_locale": "C.UTF-8",
            },
            {},
            {"fleet_secrets": [], "fleet_locale": "C.UTF-8"},
            ["fleet_base_packages, as it is made of secrets", "env of the secrets a"],
        ),
        # A playbook may give them to a role by the role's own name.
        (
            {
                "env_secrets_sets": [{"name": "a", "env": {"A": "hush"}}],
                "git_access_keys": [{"name": "k", "private_key": "hush"}],
                "notebook_server_notebooks": [{"name": "x", "secrets": ["a"]}],
            },
            {},
            {"env_secrets_sets": [], "git_access_keys": [], "notebook_server_notebooks": []},
            [
                "env of the secrets a",
                "the shared key k for git",
                "x of notebook_server_notebooks, for its secrets",
            ],
        ),
        # Who secrets belong to is no secret.
        (
            {
                "fleet_secrets": [{"name": "a", "user": "{{ me }}", "env": {"A": "1"}}],
                "me": "alice",
                "fleet_users": [{"name": "{{ me }}"}],
            },
            {},
            {
                "fleet_secrets": [],
                "me": "alice",
                "fleet_users": [{"name": "{{ me }}"}],
            },
            ["env of the secrets a"],
        ),
        # By reference.
        (
            {
                "fleet_secrets": [
                    {
                        "name": "a",
                        "user": "alice",
                        "preset": "wandb",
                        "values": {"api_key": "hush"},
                        "google_secrets": {"HF_TOKEN": "hf"},
                        "in_login_shell": True,
                    }
                ]
            },
            {},
            {
                "fleet_secrets": [
                    {
                        "name": "a",
                        "user": "alice",
                        "google_secrets": {"HF_TOKEN": "hf"},
                        "in_login_shell": True,
                    }
                ]
            },
            ["values of the secrets a"],
        ),
        # A list that is made elsewhere.
        (
            {"fleet_secrets": "{{ sets }}", "sets": [{"name": "a", "files": ["hush"]}]},
            {"fleet_secrets": [{"name": "a", "files": ["hush"]}]},
            {"fleet_secrets": []},
            ["files of the secrets a"],
        ),
        (
            {"fleet_secrets": "{{ gone }}"},
            {"fleet_secrets": None},
            {},
            ["fleet_secrets, which cannot be read"],
        ),
        (
            {
                "fleet_git_keys": [
                    {"name": "own", "users": ["alice"]},
                    {"name": "lab", "source": "shared", "private_key": "hush"},
                ]
            },
            {},
            {"fleet_git_keys": [{"name": "own", "users": ["alice"]}]},
            ["the shared key lab for git"],
        ),
        (
            {
                "fleet_runs": [{"name": "r", "env": {"A": "1"}, "command": "{{ do }}"}],
                "do": "x",
            },
            {"fleet_runs": [{"name": "r", "env": {"A": "1"}, "command": "x"}]},
            {"fleet_runs": [{"name": "r", "env": {"A": "1"}, "command": "x"}], "do": "x"},
            [],
        ),
        (
            {
                "fleet_runs": [{"name": "r", "env": {"A": "{{ vault_a }}"}}],
                "vault_a": "hush",
            },
            {"fleet_runs": [{"name": "r", "env": {"A": "hush"}}]},
            {"fleet_runs": [{"name": "r", "env": {}, "enabled": False}]},
            ["the run r, whose env is made of something else"],
        ),
        (
            {"fleet_runs": [{"name": "r", "env": {"A": Encrypted("hush")}}]},
            {},
            {"fleet_runs": [{"name": "r", "env": {}, "enabled": False}]},
            ["the run r, whose env is made of something else"],
        ),
        ({"fleet_locale": Encrypted("hush")}, {}, {}, []),
        (
            {"fleet_index_url": "https://robot:hush@example.org/simple"},
            {},
            {},
            ["fleet_index_url, as it is made of secrets"],
        ),
        (
            {
                "user_shell_snapshots": {"alice": "hush"},
                "fleet_shells": [
                    {"user": "alice", "dotfiles": {"local_path": "~/d"}},
                    {"user": "bob", "dotfiles": {"repo": "x"}},
                ],
            },
            {},
            {
                "user_shell_snapshots": {},
                "fleet_shells": [
                    {"user": "alice"},
                    {"user": "bob", "dotfiles": {"repo": "x"}},
                ],
            },
            ["dotfiles from folders of the controller"],
        ),
        (
            {
                "fleet_secrets": [{"name": "a", "env": {"A": "hush"}}],
                "fleet_notebooks": [
                    {"name": "x", "secrets": ["a"]},
                    {"name": "y"},
                ],
            },
            {},
            {"fleet_secrets": [], "fleet_notebooks": [{"name": "y"}]},
            ["env of the secrets a", "x of fleet_notebooks, for its secrets"],
        ),
        (
            {"fleet_ray_head": "solo", "fleet_ray_generated_token": "hush"},
            {},
            {"fleet_ray_head": ""},
            ["the Ray cluster, whose token only a controller has"],
        ),
        # Without a word: the workers of the slice agree on keys by themselves.
        (
            {"training_run_keys": {"digits": "hush"}, "fleet_run_log_files": 3},
            {},
            {"fleet_run_log_files": 3},
            [],
        ),
        (
            {
                "training_run_keys": "{{ [] | tpu.fleet.gang_keys(tpu_vm_name, 'hush') }}",
                "tpu_vm_name": "solo",
                "fleet_run_log_files": 3,
            },
            {},
            {"tpu_vm_name": "solo", "fleet_run_log_files": 3},
            [],
        ),
    ],
)
def test_nothing_secret_is_published(
    values: dict[str, Any],
    becomes: dict[str, Any],
    published: dict[str, Any] | None,
    without: list[str],
) -> None:
    kept, told = shown(values, becomes)
    assert kept == (values if published is None else published)
    assert told == without
    assert "hush" not in repr((kept, told))


def test_tools_come_without_logins() -> None:
    tools = {
        "index_url": "https://a:hush@example.org",
        "extra_index_urls": ["https://b:hush@example.org"],
        "index_credentials": [{"host": "x", "password": "hush"}],
        "secret_environment": {"HTTPS_PROXY": "hush"},
        "uv_version": "1",
    }
    shown, without = open_tools(tools)
    assert shown == {
        "index_url": "",
        "extra_index_urls": [],
        "index_credentials": [],
        "secret_environment": {},
        "uv_version": "1",
    }
    assert sorted(without) == [
        "fleet_build_secret_env",
        "fleet_extra_index_urls",
        "fleet_index_credentials",
        "fleet_index_url",
    ]


def slice_of(text: str = "one", found: dict[str, Any] | None = None) -> Slice:
    roles = ["code_checkout", "python_env"]
    uses = {"code_checkout": ["code_checkout_x"], "python_env": ["python_env_x"]}
    given = Given({"code_checkout_x": text, "python_env_x": "same"}, {}, uses)
    made = order("solo", given, {}, Common(roles, b"code", frozenset()))
    address = {"internal_ip": "10.0.0.2", "external_ip": ""}
    return Slice("solo", "111", [made], [address], found=found or {})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setattr(self_setup_publish, "sign", lambda text, key: f"{key} of {len(text)}")
    return Folder(str(tmp_path))


def test_published_is_what_is_different(place: Folder, tmp_path: Path) -> None:
    def again(one: Slice, check: bool = False) -> list[str]:
        return publish(place, [one], b"agent", "key", "now", check)

    assert again(slice_of(), check=True) == ["solo"]
    assert list(tmp_path.iterdir()) == []
    assert again(slice_of()) == ["solo"]
    files = place.names("files/")
    assert len(files) == 4
    assert again(slice_of()) == []
    assert again(slice_of("two")) == ["solo"]
    # Of the four only the variables are others.
    assert len(place.names("files/") - files) == 1


def test_what_a_slice_agreed_on_stays_as_long_as_it_is_asked_for_the_same(place: Folder) -> None:
    def agreed(one: Slice) -> dict[str, Any]:
        publish(place, [one], b"agent", "key", "now", check=False)
        pointer = self_setup_publish._read(place.read("slices/solo.json"))
        assert pointer
        found: dict[str, Any] = pointer["found"].get("as-published", {})
        return {name: value for name, value in found.items() if name != "tpu_vm_name"}

    code, packages = "__code_checkout_looked", "__python_env_prepared"
    assert agreed(slice_of()) == {}
    assert agreed(slice_of(found={code: "c1", packages: "p1"})) == {code: "c1", packages: "p1"}
    # Nobody was asked, as there was nothing to do.
    assert agreed(slice_of()) == {code: "c1", packages: "p1"}
    # Other code is wanted: what was agreed on of it is of no use.
    assert agreed(slice_of("two")) == {packages: "p1"}
    assert agreed(slice_of("two", found={code: "c2"})) == {code: "c2", packages: "p1"}
