"""What root installs on machines is what `make lock` pinned."""

from __future__ import annotations

import runpy
from pathlib import Path

from ansible_collections.tpu.fleet.plugins.module_utils._host.pinned import (
    ENGINES,
    HASHES,
    requirements,
)

ROOT = Path(__file__).resolve().parents[2]


def test_the_module_is_made_of_the_hashed_files() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "pin_machines.py"))
    assert script["TARGET"].read_text(encoding="utf-8") == script["text"]()


def test_everything_has_a_hash_and_ansible_is_the_one_that_was_tested() -> None:
    tested = (ROOT / "requirements" / "constraints.in").read_text(encoding="utf-8")
    for pins in ENGINES.values():
        assert all(HASHES[pin] for pin in pins)
        (core,) = (pin for pin in pins if pin.startswith("ansible-core=="))
        assert f"{core} ;" in tested
    assert requirements("uv==0") == "uv==0\n"
    assert " --hash=sha256:" in requirements(ENGINES["3.12"][0])


def test_the_uv_of_the_roles_has_hashes() -> None:
    text = (ROOT / "roles" / "python_env" / "defaults" / "main.yml").read_text(encoding="utf-8")
    (version,) = (
        line.split()[1].strip("\"'")
        for line in text.splitlines()
        if line.startswith("python_env_uv_version:")
    )
    assert HASHES[f"uv=={version}"]
