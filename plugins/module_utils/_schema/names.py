# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of the fleet file, and the variables of roles that take their values from them. No I/O.

A role has variables that begin with its own name. The fleet file has `fleet_*` alone: a variable of
a role that has no value takes that of its name here. What is missing here (the slice of a host, the
index of a worker) comes from the inventory or from a playbook.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, TypeVar

from .disks import mounts_of
from .durations import EXAMPLES as DURATIONS
from .keys import Problem
from .sizes import EXAMPLES as SIZES

Value = TypeVar("Value")

# By variable of a role, in the order of the roles and of their argument specifications. Several
# variables with one name are one setting of the fleet.
FLEET_NAMES: dict[str, str] = {
    "host_base_first_boot_timeout": "fleet_first_boot_timeout",
    "host_base_first_boot_units": "fleet_first_boot_units",
    "host_base_min_free": "fleet_min_free",
    "host_base_packages": "fleet_base_packages",
    "host_base_extra_packages": "fleet_packages",
    "host_base_apt_lock_timeout": "fleet_apt_lock_timeout",
    "host_base_automatic_updates": "fleet_automatic_updates",
    "host_base_snaps": "fleet_snaps",
    "host_base_time_zone": "fleet_time_zone",
    "host_base_locale": "fleet_locale",
    "host_base_limits": "fleet_limits",
    "host_base_huge_pages": "fleet_huge_pages",
    "host_base_tcmalloc": "fleet_tcmalloc",
    "host_base_journal_max_size": "fleet_journal_max_size",
    "host_base_disk_guard": "fleet_disk_guard",
    "host_base_disk_guard_interval": "fleet_disk_guard_interval",
    "host_base_disk_guard_full_percent": "fleet_disk_guard_full_percent",
    "host_base_disk_guard_paths": "fleet_disk_guard_paths",
    "user_accounts_users": "fleet_users",
    "user_accounts_groups": "fleet_groups",
    "user_accounts_archive_dir": "fleet_archive_dir",
    "data_disk_disks": "fleet_disks",
    "data_disk_device_timeout": "fleet_disk_device_timeout",
    "data_disk_apt_lock_timeout": "fleet_apt_lock_timeout",
    "nfs_share_shares": "fleet_shares",
    "nfs_share_timeout": "fleet_share_timeout",
    "nfs_share_mount_timeout": "fleet_share_mount_timeout",
    "nfs_share_idle_timeout": "fleet_share_idle_timeout",
    "nfs_share_grace": "fleet_share_grace",
    "nfs_share_when_unsupported": "fleet_share_when_unsupported",
    "nfs_share_on_unreachable": "fleet_share_on_unreachable",
    "nfs_share_apt_lock_timeout": "fleet_apt_lock_timeout",
    "bucket_mount_buckets": "fleet_buckets",
    "bucket_mount_apt_uri": "fleet_gcsfuse_apt_uri",
    "bucket_mount_apt_key": "fleet_gcsfuse_apt_key",
    "bucket_mount_version": "fleet_gcsfuse_version",
    "bucket_mount_apt_lock_timeout": "fleet_apt_lock_timeout",
    "bucket_mount_timeout": "fleet_bucket_timeout",
    "git_access_keys": "fleet_git_keys",
    "git_access_identities": "fleet_git_identities",
    "git_access_hosts": "fleet_git_hosts",
    "git_access_apt_lock_timeout": "fleet_apt_lock_timeout",
    "user_shell_packages": "fleet_shell_packages",
    "user_shell_editor": "fleet_shell_editor",
    "user_shell_prompt": "fleet_shell_prompt",
    "user_shell_vscode": "fleet_shell_vscode",
    "user_shell_people": "fleet_shells",
    "user_shell_theme": "fleet_shell_theme",
    "user_shell_plugins": "fleet_shell_plugins",
    "user_shell_ohmyzsh_commit": "fleet_ohmyzsh_commit",
    "user_shell_ohmyzsh_tree": "fleet_ohmyzsh_tree",
    "user_shell_ohmyzsh_url": "fleet_ohmyzsh_url",
    "env_secrets_sets": "fleet_secrets",
    "env_secrets_google_project": "fleet_google_secrets_project",
    "env_secrets_google_endpoint": "fleet_google_secrets_endpoint",
    "code_checkout_trees": "fleet_code",
    "code_checkout_keep": "fleet_code_keep",
    "dataset_datasets": "fleet_datasets",
    "dataset_hub_url": "fleet_hugging_face_url",
    "dataset_port": "fleet_dataset_port",
    "python_env_venvs": "fleet_venvs",
    "python_env_accelerator": "fleet_venv_accelerator",
    "python_env_default_python": "fleet_python",
    "python_env_python_source": "fleet_python_source",
    "python_env_python_dir": "fleet_python_dir",
    "python_env_python_mirror": "fleet_python_mirror",
    "python_env_python_list": "fleet_python_list",
    "python_env_conda": "fleet_conda",
    "python_env_conda_channel": "fleet_conda_channel",
    "python_env_deadsnakes_url": "fleet_deadsnakes_url",
    "python_env_deadsnakes_key": "fleet_deadsnakes_key",
    "python_env_apt_lock_timeout": "fleet_apt_lock_timeout",
    "python_env_jax_version": "fleet_jax_version",
    "python_env_torch_xla_version": "fleet_torch_xla_version",
    "python_env_torch_tpu_version": "fleet_torch_tpu_version",
    "python_env_torch_index_url": "fleet_torch_index_url",
    "python_env_uv_version": "fleet_uv_version",
    "python_env_cache_dir": "fleet_package_cache_dir",
    "python_env_compile_bytecode": "fleet_compile_bytecode",
    "python_env_index_url": "fleet_index_url",
    "python_env_extra_index_urls": "fleet_extra_index_urls",
    "python_env_index_credentials": "fleet_index_credentials",
    "python_env_ca_bundle": "fleet_ca_bundle",
    "python_env_environment": "fleet_build_env",
    "python_env_secret_environment": "fleet_build_secret_env",
    "python_env_shared_cache": "fleet_shared_cache",
    "python_env_shared_cache_port": "fleet_shared_cache_port",
    "python_env_shared_cache_clients": "fleet_shared_cache_clients",
    "python_env_shared_cache_dir": "fleet_shared_cache_dir",
    "python_env_tries": "fleet_build_tries",
    "python_env_parallel_builds": "fleet_parallel_builds",
    "python_env_keep_builds": "fleet_keep_builds",
    "python_env_rebuild": "fleet_rebuild_venvs",
    "python_env_prune": "fleet_prune_venvs",
    "notebook_server_notebooks": "fleet_notebooks",
    "notebook_server_jupyterlab_version": "fleet_jupyterlab_version",
    "notebook_server_ipykernel_version": "fleet_ipykernel_version",
    "notebook_server_packages": "fleet_notebook_packages",
    "notebook_server_python": "fleet_notebook_python",
    "notebook_server_venv_path": "fleet_notebook_venv_path",
    "notebook_server_uv_version": "fleet_uv_version",
    "notebook_server_index_url": "fleet_index_url",
    "notebook_server_ca_bundle": "fleet_ca_bundle",
    "notebook_server_package_environment": "fleet_build_env",
    "notebook_server_start_timeout": "fleet_notebook_start_timeout",
    "tensorboard_server_boards": "fleet_boards",
    "tensorboard_server_version": "fleet_tensorboard_version",
    "tensorboard_server_profile": "fleet_tensorboard_profile",
    "tensorboard_server_profile_version": "fleet_tensorboard_profile_version",
    "tensorboard_server_packages": "fleet_tensorboard_packages",
    "tensorboard_server_python": "fleet_tensorboard_python",
    "tensorboard_server_venv_path": "fleet_tensorboard_venv_path",
    "tensorboard_server_uv_version": "fleet_uv_version",
    "tensorboard_server_index_url": "fleet_index_url",
    "tensorboard_server_ca_bundle": "fleet_ca_bundle",
    "tensorboard_server_package_environment": "fleet_build_env",
    "tensorboard_server_start_timeout": "fleet_tensorboard_start_timeout",
    "tpu_metrics_enabled": "fleet_metrics",
    "tpu_metrics_address": "fleet_metrics_address",
    "tpu_metrics_port": "fleet_metrics_port",
    "tpu_metrics_interval": "fleet_metrics_interval",
    "tpu_metrics_disks": "fleet_metrics_disks",
    "tpu_metrics_exporter_args": "fleet_metrics_exporter_args",
    "tpu_metrics_tpu_info": "fleet_metrics_tpu_info",
    "tpu_metrics_tpu_info_version": "fleet_metrics_tpu_info_version",
    "tpu_metrics_apt_lock_timeout": "fleet_apt_lock_timeout",
    "ray_cluster_head": "fleet_ray_head",
    "ray_cluster_user": "fleet_ray_user",
    "ray_cluster_slices": "fleet_ray_slices",
    "ray_cluster_venv": "fleet_ray_venv",
    "ray_cluster_version": "fleet_ray_version",
    "ray_cluster_packages": "fleet_ray_packages",
    "ray_cluster_python": "fleet_ray_python",
    "ray_cluster_venv_path": "fleet_ray_venv_path",
    "ray_cluster_uv_version": "fleet_uv_version",
    "ray_cluster_index_url": "fleet_index_url",
    "ray_cluster_ca_bundle": "fleet_ca_bundle",
    "ray_cluster_package_environment": "fleet_build_env",
    "ray_cluster_chips": "fleet_ray_chips",
    "ray_cluster_cpus": "fleet_ray_cpus",
    "ray_cluster_resources": "fleet_ray_resources",
    "ray_cluster_object_store_size": "fleet_ray_object_store_size",
    "ray_cluster_memory_max": "fleet_ray_memory_max",
    "ray_cluster_port": "fleet_ray_port",
    "ray_cluster_dashboard_port": "fleet_ray_dashboard_port",
    "ray_cluster_node_ports": "fleet_ray_node_ports",
    "ray_cluster_worker_ports": "fleet_ray_worker_ports",
    "ray_cluster_env": "fleet_ray_env",
    "ray_cluster_secrets": "fleet_ray_secrets",
    "ray_cluster_token": "fleet_ray_token",
    "ray_cluster_state_dir": "fleet_ray_state_dir",
    "ray_cluster_keep_sessions": "fleet_ray_keep_sessions",
    "ray_cluster_start_timeout": "fleet_ray_start_timeout",
    "training_run_runs": "fleet_runs",
    "training_run_multislice": "fleet_run_multislice",
    "training_run_peer_port_base": "fleet_run_peer_port_base",
    "training_run_port_base": "fleet_run_port_base",
    "training_run_lost_after": "fleet_run_lost_after",
    "training_run_metadata_url": "fleet_run_metadata_url",
    "training_run_log_size": "fleet_run_log_size",
    "training_run_log_files": "fleet_run_log_files",
    "training_run_prune": "fleet_prune_runs",
    "run_queue_peer_port_base": "fleet_run_peer_port_base",
    "run_queue_port_base": "fleet_run_port_base",
    "run_queue_lost_after": "fleet_run_lost_after",
    "run_queue_metadata_url": "fleet_run_metadata_url",
    "run_queue_log_size": "fleet_run_log_size",
    "run_queue_log_files": "fleet_run_log_files",
}

# What a role takes of a variable that says more than is the role's.
PARTS: dict[str, Callable[[Any], Any]] = {"data_disk_disks": mounts_of}

# Variables that became a part of the entries of another one, with what to do.
MERGED = dict.fromkeys(
    ("data_disk_disks", "fleet_disk_mounts"),
    "Write path, and the keys beside it, into the entry that fleet_disks has for the disk",
)

# Variables that are gone, and those that took their place; in {} goes the old number.
GONE = {
    "host_base_disk_guard_minutes": "fleet_disk_guard_interval: {}m",
    "host_base_journal_max_mb": "fleet_journal_max_size: {}MiB",
    "host_base_min_free_mb": "fleet_min_free: {}MiB",
    "nfs_share_grace_seconds": "fleet_share_grace: {}s",
    "ray_cluster_object_store_mb": "fleet_ray_object_store_size: {}MiB",
    "training_run_log_bytes": "fleet_run_log_size: {}B",
    "training_run_lost_seconds": "fleet_run_lost_after: {}s",
    "fleet_allocation_warn_days": "fleet_allocation_warn_before: {}d",
    "fleet_drill_seconds": "fleet_drill_duration: {}s",
    "nfs_share_when_away": "fleet_share_on_unreachable",
    "fleet_await": "fleet_wait",
    "fleet_require": "fleet_wait",
    "fleet_wait_for": "fleet_wait",
}

_SHARED = {name for name, count in Counter(FLEET_NAMES.values()).items() if count > 1}
_OWN_NAMES = {name: own for own, name in FLEET_NAMES.items() if name not in _SHARED}


def fleet_name(variable: str) -> str:
    """Return the name of a role's variable in the fleet file; its own if it has no other there."""
    return FLEET_NAMES.get(variable, variable)


def own_names(role: str) -> dict[str, str]:
    """Return the variables of a role by their names in the fleet file."""
    return {name: own for own, name in FLEET_NAMES.items() if own.startswith(f"{role}_")}


def in_fleet_file(keys: Mapping[str, Value]) -> dict[str, Value]:
    """Return what is there by variable of a role by the names of the fleet file instead.

    Of several variables with one name the first counts.
    """
    found: dict[str, Value] = {}
    for own, value in keys.items():
        found.setdefault(fleet_name(own), value)
    return found


def own_name(name: str) -> str:
    """Return the variable of the role that alone takes its value from a name of the fleet file.

    A name that several roles take, or none, stays.
    """
    return _OWN_NAMES.get(name, name)


def written(own: str, variables: Container[str]) -> str:
    """Return the name under which a variable of a role is among these: its own, or the fleet's."""
    return own if own in variables else fleet_name(own)


def either(variables: Mapping[str, Any], own: str, otherwise: Any = None) -> Any:
    """Return what variables say for a variable of a role: under its own name, or the fleet's."""
    return variables.get(written(own, variables), otherwise)


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return a text with other names of variables."""
    return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), text)


def with_names(problem: Problem, names: Mapping[str, str]) -> Problem:
    """Return a problem of the fleet file with other names of variables."""
    field, message, remedy = (
        renamed(text, names) for text in (problem.field, problem.message, problem.remedy)
    )
    return Problem(field, problem.value, message, remedy)


def old_names(
    names: Iterable[str], places: Callable[[str], str | None] = lambda _name: None
) -> list[Problem]:
    """Return a problem for each variable of a role that the fleet file has by another name.

    `places` returns the file that has a variable, if it is known.
    """
    problems, there = [], set(names)
    successors = {name: _renaming(new) for name, new in {**FLEET_NAMES, **GONE}.items()}
    remedies = {**successors, **MERGED}
    for name in (own for own in remedies if own in there):
        place = places(name)
        message = "is no variable of the fleet file" + (f", in {place}" if place else "")
        problems.append(Problem(name, None, message, remedies[name]))
    return problems


def _renaming(successor: str) -> str:
    new, _colon, unit = successor.partition(": {}")
    examples = SIZES if unit.endswith("B") else DURATIONS
    return f"Rename it to {new}" + (f", and give its value a unit, as {examples}" if unit else "")
