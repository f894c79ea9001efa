"""Which versions go together."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.frameworks import (
    DEFAULT_PYTHON,
    DEFAULT_VERSIONS,
    RELEASES,
    framework_lines,
    misfits,
    no_wheels,
    release_of,
    unknown_release,
    version_key,
    wrong_libtpu,
)

ROLE = Path(__file__).resolve().parents[6] / "roles/python_env/meta/argument_specs.yml"


@pytest.mark.parametrize("framework", RELEASES)
def test_rows_are_in_order(framework: str) -> None:
    rows = RELEASES[framework]
    assert list(rows) == sorted(rows, key=lambda row: version_key(row.version))
    assert all(row.pythons[0] <= row.pythons[1] for row in rows)


def test_the_defaults_are_those_of_the_role_and_go_together() -> None:
    options = yaml.safe_load(ROLE.read_text())["argument_specs"]["main"]["options"]
    assert options["python_env_default_python"]["default"] == DEFAULT_PYTHON
    for framework, version in DEFAULT_VERSIONS.items():
        assert options[f"python_env_{framework}_version"]["default"] == version
        assert misfits(framework, version, DEFAULT_PYTHON, "", {}) == []
        assert release_of(framework, version)


@pytest.mark.parametrize(
    ("framework", "version", "torch", "accelerator", "lines"),
    [
        ("jax", "0.10.2", "", "tpu", ["jax[tpu]==0.10.2"]),
        ("jax", "0.10.2", "", "cpu", ["jax==0.10.2"]),
        ("torch_xla", "2.9.0", "", "tpu", ["torch==2.9.0", "torch_xla[tpu]==2.9.0"]),
        ("torch_xla", "2.8.1", "", "cpu", ["torch==2.8.0", "torch_xla==2.8.1"]),
        ("torch_xla", "2.10.0", "", "cpu", ["torch==2.10.0", "torch_xla==2.10.0"]),
        ("torch_tpu", "0.3.0", "", "tpu", ["torch", "torch_tpu==0.3.0"]),
        ("torch_tpu", "0.2.0", "", "tpu", ["torch>=2.11.0,<=2.15.0", "torch_tpu==0.2.0"]),
        ("torch_tpu", "0.2.0", "2.13.0", "tpu", ["torch==2.13.0", "torch_tpu==0.2.0"]),
        ("torch_tpu", "0.2.0", "2.13.0", "cpu", ["torch==2.13.0"]),
        ("none", "", "", "tpu", []),
    ],
)
def test_packages_of_a_framework(
    framework: str, version: str, torch: str, accelerator: str, lines: list[str]
) -> None:
    assert framework_lines(framework, version, torch, accelerator) == lines


@pytest.mark.parametrize(
    ("framework", "version", "python", "torch", "pinned", "key", "remedy"),
    [
        ("jax", "0.11.0", "3.11", "", {}, "python", "3.12 to 3.14, or framework_version 0.10.2"),
        ("jax", "0.11.1", "3.11.2", "", {}, "python", "python 3.12 to 3.15"),
        ("jax", "0.7.0", "3.10", "", {}, "python", "or framework_version 0.6.2"),
        ("jax", "0.12.0.1", "3.11", "", {}, "python", "or framework_version 0.10.2"),
        ("jax", "0.7.0", "3.14", "", {}, "python", "python 3.11 to 3.13"),
        ("jax", "0.4.30", "3.10", "", {}, "framework_version", "0.5.1 or a newer one"),
        ("jax", "0.10.2", "3.11", "", {"libtpu": "0.0.21"}, "packages", "jax brings 0.0.42"),
        ("jax", "0.10.2", "3.11", "2.9.0", {}, "torch_version", "add torch to packages"),
        ("torch_xla", "2.9.0", "3.14", "", {}, "python", "python 3.10 to 3.12"),
        ("jax", "0.10.1", "3.11", "", {"libtpu": "0.0.42"}, "packages", "jax brings 0.0.41"),
        ("torch_tpu", "0.2.0", "3.12", "", {"libtpu": "0.0.49"}, "packages", "0.0.50 or newer"),
        ("torch_xla", "2.9.0", "3.11", "", {"torch": "2.13.0"}, "packages", "Use torch 2.9.0"),
        ("torch_xla", "2.6.1", "3.11", "", {}, "framework_version", "2.7.0 or a newer one"),
        ("torch_tpu", "0.2.0", "3.10", "", {}, "python", "python 3.11 to 3.14"),
        ("torch_tpu", "0.2.0", "3.12", "2.9.0", {}, "torch_version", "torch 2.11.0 to 2.15.0"),
        ("none", "", "3.11", "", {"libtpu-nightly": "1"}, "packages", "comes with the framework"),
    ],
)
def test_what_does_not_go_together(
    framework: str,
    version: str,
    python: str,
    torch: str,
    pinned: dict[str, str],
    key: str,
    remedy: str,
) -> None:
    (misfit,) = misfits(framework, version, python, torch, pinned)
    assert misfit.key == key
    assert remedy in misfit.remedy


@pytest.mark.parametrize(
    ("framework", "version", "python", "torch", "pinned"),
    [
        ("jax", "0.12.0.1", "3.14", "", {}),
        ("jax", "0.11.2", "3.15", "", {}),
        ("jax", "0.13.0", "3.17", "", {"libtpu": "0.0.60"}),
        ("jax", "0.13.0", "3.11", "", {}),
        ("torch_tpu", "0.2.0", "3.12", "", {"libtpu": "0.0.52"}),
        ("jax", "0.10.2", "3.11", "", {"libtpu": "0.0.42.1"}),
        ("jax", "0.10.1", "3.11", "", {"libtpu": "0.0.41"}),
        ("torch_xla", "2.9.0", "3.11", "", {"torch": "2.9.0+cpu"}),
        ("torch_tpu", "0.2.0", "3.11", "2.13.0", {}),
        ("torch_tpu", "0.3.0", "3.12", "", {}),
    ],
)
def test_what_goes_together(
    framework: str, version: str, python: str, torch: str, pinned: dict[str, str]
) -> None:
    assert misfits(framework, version, python, torch, pinned) == []


def test_another_libtpu_never_passes_silently() -> None:
    assert wrong_libtpu("jax", "0.10.2", {"libtpu": "0.0.42.1"}) == ""
    assert wrong_libtpu("jax", "0.10.2", {}) == ""
    told = wrong_libtpu("torch_xla", "2.9.0", {"libtpu": "0.0.42"})
    assert told == "libtpu is 0.0.42 instead of 0.0.21"


@pytest.mark.parametrize(
    ("framework", "version", "told"),
    [
        ("jax", "0.99", "is newer than the releases of jax that are known here, up to "),
        ("jax", "0.11.9", "is not among the releases of jax that are known here, up to "),
        ("torch_tpu", "9.0", "is newer than"),
        ("jax", "0.12.0.1", ""),
        ("jax", "0.12", ""),
        # It is refused.
        ("jax", "0.4.30", ""),
        ("none", "", ""),
    ],
)
def test_a_release_without_a_row_is_a_warning_and_no_refusal(
    framework: str, version: str, told: str
) -> None:
    assert unknown_release(framework, version).startswith(told)
    assert bool(unknown_release(framework, version)) == bool(told)
    if told:
        assert misfits(framework, version, "3.11", "", {}) == []


@pytest.mark.parametrize(
    ("framework", "version", "accelerator", "processor", "told"),
    [
        ("jax", "0.12.0.1", "cpu", "aarch64", ""),
        ("jax", "0.12.0.1", "tpu", "x86_64", ""),
        ("jax", "0.12.0.1", "tpu", "aarch64", "jax 0.12.0.1 has no libtpu for aarch64, only for"),
        ("jax", "0.12.0.1", "cpu", "riscv64", "has no wheels for riscv64, only for aarch64, x86_"),
        ("torch_xla", "2.9.0", "cpu", "aarch64", "torch_xla 2.9.0 has no wheels for aarch64"),
        # Without chips it is PyTorch alone.
        ("torch_tpu", "0.2.0", "cpu", "aarch64", ""),
        ("jax", "0.99", "tpu", "aarch64", ""),
    ],
)
def test_which_machines_a_release_is_for(
    framework: str, version: str, accelerator: str, processor: str, told: str
) -> None:
    found = no_wheels(framework, version, accelerator, processor)
    assert told in found
    assert bool(found) == bool(told)
