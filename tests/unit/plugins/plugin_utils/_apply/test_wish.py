"""What hosts that apply themselves are sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._schema.names import fleet_name
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply.prepare import short
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply.wish import (
    DECLARED_BY,
    Common,
    Given,
    Order,
    after_of,
    follows_elsewhere,
    is_ours,
    is_plain,
    not_applied,
    order,
    packages_of,
    parts_of,
    roles_asked_for,
    secrets_of,
    simple,
    skips_of,
    undeclared,
    without,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import (
    role_names,
    role_options,
    roles_in_order,
    secret_options,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import (
    SshConfigError,
    target_of,
)

GIVEN = Given(
    templates={"env_secrets_secrets": "{{ my_vault }}", "my_vault": "s3cret", "shown": "{{ 1 }}"},
    plain={"tpu_vm_name": "pair", "code_checkout_trees": []},
    uses={"env_secrets": ["env_secrets_secrets", "my_vault"], "code_checkout": ["shown"]},
)
COMMON = Common(
    roles=["env_secrets", "code_checkout"],
    code=b"collection",
    secret=frozenset({"env_secrets_secrets"}),
    snapshots={"tree.tar.gz": b"archive"},
)


def ordered(given: Given = GIVEN, **tools: Any) -> Order:
    return order("pair-w0", given, tools, COMMON)


def test_secrets_are_in_a_file_of_their_own() -> None:
    made = ordered(index_credentials=[{"password": "pa55"}])
    secrets = json.loads(made.files[made.wish["secrets"]])
    assert secrets["templates"] == {"env_secrets_secrets": "{{ my_vault }}", "my_vault": "s3cret"}
    assert secrets["tools"] == {"index_credentials": [{"password": "pa55"}]}
    shown = [data for name, data in made.files.items() if name != made.wish["secrets"]]
    for word in (b"s3cret", b"pa55"):
        assert not any(word in data for data in shown)
        assert word not in json.dumps(made.wish).encode()


def test_the_same_is_asked_with_the_same_bytes() -> None:
    assert ordered() == ordered()
    assert ordered().slice == "pair"
    other = Given({**GIVEN.templates, "shown": "2"}, GIVEN.plain, GIVEN.uses)
    assert ordered(other).wish["variables"] != ordered().wish["variables"]
    assert ordered(other).wish["secrets"] == ordered().wish["secrets"]


def test_snapshots_are_sent_by_what_they_hold() -> None:
    made = ordered()
    assert made.files[made.wish["snapshots"]["code_checkout"]["tree.tar.gz"]] == b"archive"


@pytest.mark.parametrize(
    ("trees", "follows"),
    [
        (None, False),
        ([{"name": "a", "local_path": "x"}], False),
        ([{"name": "a", "repo": "r"}], True),
        ([{"name": "a", "repo": "r", "version": "main"}], True),
        ([{"name": "a", "repo": "r", "version": "0123456789" * 4}], False),
    ],
)
def test_branches_move_by_themselves(trees: Any, follows: bool) -> None:
    assert follows_elsewhere(trees) is follows


def test_a_role_depends_on_those_whose_variables_it_has_to_do_with() -> None:
    uses = {
        "code_checkout": ["code_checkout_trees", "training_run_runs"],
        "training_run": ["training_run_runs", "code_checkout_trees"],
    }
    assert after_of(["code_checkout", "training_run"], uses) == {"training_run": ["code_checkout"]}


@pytest.mark.parametrize(
    ("tags", "roles"),
    [
        ([], ["user_shell", "user_accounts"]),
        (["user_shell"], ["user_shell"]),
        (["user_shell_verify"], ["user_shell"]),
        (["user"], []),
        (["onboarding"], []),
    ],
)
def test_tags_name_roles_or_their_phases(tags: list[str], roles: list[str]) -> None:
    assert roles_asked_for(["user_shell", "user_accounts"], tags) == roles


ROLES_OF_SITE = ["user_shell", "user_accounts"]


@pytest.mark.parametrize(
    ("tags", "parts"),
    [
        ([], []),
        # A whole role is applied and recorded as such, whatever else in the playbook has tags.
        (["user_shell"], []),
        (["user_shell", "onboarding"], []),
        (["user_shell", "user_accounts"], []),
        (["user_shell_verify"], ["user_shell_verify"]),
        (["user_shell", "user_accounts_configure"], ["user_shell", "user_accounts_configure"]),
    ],
)
def test_tags_that_name_whole_roles_are_no_part(tags: list[str], parts: list[str]) -> None:
    assert parts_of(ROLES_OF_SITE, tags) == parts


def test_a_skipped_role_is_left_out() -> None:
    assert without(ROLES_OF_SITE, ["user_shell", "user_accounts_verify"]) == ["user_accounts"]


def test_a_role_that_a_tag_names_and_a_playbook_does_not_apply_is_named() -> None:
    known = [*ROLES_OF_SITE, "training_run", "nfs_share"]
    tags = ["user_shell", "training_run_configure", "onboarding"]
    assert not_applied(tags, ROLES_OF_SITE, known) == ["training_run"]
    assert not_applied(["user_shell", "other"], ROLES_OF_SITE, known) == []


def test_what_nothing_is_declared_for_is_known_before() -> None:
    given = {"nfs_share_shares": [], "bucket_mount_buckets": "{{ ours }}", "tpu_metrics_enabled": 1}
    roles = ["host_base", "nfs_share", "bucket_mount", "tpu_metrics", "ray_cluster"]
    assert undeclared(roles, given) == ["nfs_share", "ray_cluster"]
    assert undeclared(["data_disk"], {"tpu_vm_data_disks": [{"name": "x"}]}) == []


def test_packages_are_named_as_far_as_nothing_is_to_be_evaluated() -> None:
    both = ["host_base", "user_shell", "training_run"]
    defaults = packages_of(both, {})
    assert {"git", "tmux", "mosh"} <= set(defaults)
    assert len(defaults) == len(set(defaults))
    assert "mosh" not in packages_of(["host_base"], {})
    declared = {
        "host_base_packages": ["git", "zsh=5.9-4"],
        "host_base_extra_packages": "{{ more }}",
        "user_shell_packages": ["git", "{{ one }}", "-oDPkg::Pre-Invoke::=x", "fish"],
    }
    assert packages_of(both, declared) == ["git", "zsh=5.9-4", "fish"]


def test_what_roles_are_declared_by_are_options_that_are_empty_by_default() -> None:
    options = role_options()
    assert set(DECLARED_BY) < set(role_names())
    for role, names in DECLARED_BY.items():
        assert names[0].startswith(f"{role}_")
        for name in names:
            # What a slice has of itself is no option, but what an option is by default.
            option = options.get(name, {})
            source = f"The default is C({names[-1]})"
            assert not option.get("default")
            assert "default" in option or name == names[-1] or source in str(option["description"])


@pytest.mark.parametrize("role", sorted(DECLARED_BY))
def test_a_role_is_declared_by_its_own_name_or_that_of_the_fleet_file(role: str) -> None:
    for name in DECLARED_BY[role]:
        for written in {name, fleet_name(name)}:
            assert undeclared([role], {written: ["x"]}) == [], written
            assert undeclared([role], {written: []}) == [role], written


def test_packages_of_the_fleet_file_are_named() -> None:
    declared = {"fleet_base_packages": ["git"], "fleet_packages": ["fish"]}
    assert packages_of(["host_base"], declared) == ["git", "fish"]


def test_what_several_roles_take_makes_none_depend_on_another() -> None:
    roles = ["host_base", "data_disk", "code_checkout", "training_run"]
    uses = {
        "host_base": ["fleet_apt_lock_timeout"],
        "data_disk": ["fleet_apt_lock_timeout"],
        "training_run": ["fleet_code", "fleet_runs"],
    }
    assert after_of(roles, uses) == {"training_run": ["code_checkout"]}


def test_tags_of_other_plays_are_none_to_skip() -> None:
    asked = ["notest", "user_shell_verify", "user", "always", "user_accounts"]
    assert skips_of(["user_shell"], asked) == ["user_shell_verify", "always"]


def test_what_nobody_declared_is_not_sent() -> None:
    magic = [
        "ansible_host",
        "ansible_facts",
        "environment",
        "groups",
        "hostvars",
        "inventory_hostname",
        "omit",
        "vars",
    ]
    assert [name for name in [*magic, "my_vault", "tpu_vm_name"] if is_ours(name)] == [
        "my_vault",
        "tpu_vm_name",
    ]


@pytest.mark.parametrize(
    ("value", "plain"),
    [("x", False), ("{{ mine }}", False), ("{{ theirs }}", True), (["x", {"k": "{%x"}], True)],
)
def test_what_is_not_trusted_is_no_template(value: Any, plain: bool) -> None:
    assert is_plain(value, lambda text: "mine" in text) is plain


def test_secrets_are_found_through_others() -> None:
    given = Given({"role_option": "{{ a }}", "a": "{{ b }}", "b": "x", "c": "y"}, {}, {})
    assert secrets_of(["role_option"], given) == {"role_option", "a", "b"}
    assert "python_env_index_credentials" in secret_options()
    assert "python_env_venvs" not in secret_options()


def test_values_become_json() -> None:
    class Text(str):
        pass

    value = simple({"a": (Text("x"), 1, None, True), 2: {"b"}})
    assert value == {"a": ["x", 1, None, True], "2": ["b"]}
    assert value["a"][0].__class__ is str


def test_each_role_has_one_place_in_the_order() -> None:
    assert sorted(roles_in_order()) == role_names()


def test_a_service_that_cannot_start_keeps_no_run_from_starting() -> None:
    order = roles_in_order()
    after = order[order.index("training_run") + 1 :]
    assert after == [
        "run_queue",
        "notebook_server",
        "tensorboard_server",
        "tpu_metrics",
        "ray_cluster",
    ]


def test_roles_of_others_are_refused() -> None:
    assert short(["tpu.fleet.host_base", "user_shell"]) == ["host_base", "user_shell"]
    with pytest.raises(Exception, match=r"acme\.fleet\.host_base"):
        short(["acme.fleet.host_base"])


def test_hosts_are_reached_as_ansible_reaches_them() -> None:
    options = "-o HostKeyAlias=uid-0 -o 'UserKnownHostsFile=\"/a b/known\"' -oCheckHostIP=no"
    target = target_of("w0", "10.0.0.1", "2222", "ubuntu", "/k/ey", [options])
    assert (target.address, target.port, target.user) == ("10.0.0.1", 2222, "ubuntu")
    assert (target.key_name, target.known_hosts[0]) == ("uid-0", "/a b/known")
    assert target.identity_files == ("/k/ey",)
    with pytest.raises(SshConfigError, match="-J"):
        target_of("w0", "", "", "", "", ["-J jump"])
    with pytest.raises(SshConfigError, match="include"):
        target_of("w0", "", "", "", "", ["-o Include=/etc/x"])
