"""Settings that are off by null, where the tasks of a role read them as variables."""

from __future__ import annotations

from typing import Any

import pytest
from role_templates import arguments, expression, filled, variables_of


def journal_file(more: dict[str, Any]) -> Any:
    variables = variables_of("host_base", more)
    (found,) = (one for one in variables["__host_base_files"] if "journald" in str(one["path"]))
    return filled(found, variables)


def test_without_a_size_the_journal_is_left_to_the_distribution() -> None:
    assert journal_file({"fleet_journal_max_size": None})["state"] == "absent"
    assert journal_file({})["state"] == "file"
    assert "SystemMaxUse=2048M\n" in journal_file({"fleet_journal_max_size": "2GiB"})["content"]


@pytest.mark.parametrize(("given", "wanted"), [(None, ""), ("de_AT.UTF-8", "de_AT.UTF-8")])
def test_without_a_locale_the_machine_keeps_its_own(given: str | None, wanted: str) -> None:
    variables = {
        **variables_of("host_base", {"fleet_locale": given}),
        "__host_base_huge_pages_skip": "",
    }
    told = arguments("host_base", "configure.yml", "Activate the settings", variables)
    assert told["locale"] == wanted
    packages = expression("__host_base_all_packages", variables)
    assert ("locales" in packages) == bool(wanted)


def test_without_a_shared_cache_each_worker_downloads_for_itself() -> None:
    slice_of_two = {
        "tpu_vm_slice_hosts": ["10.0.0.2", "10.0.0.3"],
        "python_env_venvs": [{"name": "jax", "path": "/opt/venvs/jax"}],
    }
    urls = [
        expression("__python_env_cache_url", variables_of("python_env", {**slice_of_two, **more}))
        for more in ({}, {"fleet_shared_cache": None})
    ]
    assert urls == ["http://10.0.0.2:880", ""]


@pytest.mark.parametrize(("given", "wanted"), [(None, 0), ("2GiB", 2048)])
def test_without_a_limit_no_free_space_is_needed(given: str | None, wanted: int) -> None:
    variables = variables_of("host_base", {"fleet_min_free": given})
    told = arguments("host_base", "validate.yml", "Wait for the first boot", variables)
    assert told["min_free_mb"] == wanted
