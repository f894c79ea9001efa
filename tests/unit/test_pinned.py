"""What root installs, on machines and for development, is what `make lock` pinned."""

from __future__ import annotations

import base64
import hashlib
import re
import runpy
import tomllib
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.pinned import (
    ENGINES,
    HASHES,
    requirements,
)

ROOT = Path(__file__).resolve().parents[2]


def test_the_module_is_made_of_the_hashed_files() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "pin_machines.py"))
    known = script["read"]("bootstrap.txt")
    for line, name in script["FILES"].items():
        pinned = script["read"](name)
        used = {pin for pin in pinned if pin.partition("==")[0] not in script["NOT_USED"]}
        assert used == set(ENGINES[line])
        known.update(pinned)
    assert set(HASHES) <= set(known)
    # Of all files of a version those that a machine may get.
    assert all(set(hashes) <= set(known[pin]) for pin, hashes in HASHES.items())


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
    (version,) = re.findall(r"(?m)^python_env_uv_version: .*default\('([0-9.]+)'\)", text)
    assert HASHES[f"uv=={version}"]


def test_the_key_of_deadsnakes_is_the_one_that_launchpad_names() -> None:
    lines = (ROOT / "roles" / "python_env" / "files" / "deadsnakes.asc").read_text().splitlines()
    assert lines[0] == "-----BEGIN PGP PUBLIC KEY BLOCK-----"
    key = base64.b64decode("".join(lines[lines.index("") + 1 : -2]))
    # RFC 9580, section 5.5.4.2: a key of version 4 is named by the SHA-1 of its first packet.
    packet = key[: 3 + int.from_bytes(key[1:3], "big")]
    assert (packet[0], packet[3]) == (0x99, 4)
    name = hashlib.sha1(packet, usedforsecurity=False).hexdigest()
    assert name == "f23c5a6cf475977595c89f51ba6932366a755776"


def test_what_builds_the_wheel_is_pinned_with_what_it_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pinned = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    for name in project["build-system"]["requires"]:
        assert re.search(rf"^{name}==\S+ \\\n +--hash=sha256:", pinned, re.MULTILINE), name
    assert project["dependency-groups"]["build"] == project["build-system"]["requires"]


# As `scripts/venv` and its siblings call them.
INSTALLS = re.compile(r"\bpip install\b|\bpip sync\b|\buv\S* build\b")


@pytest.mark.parametrize("name", ["venv", "environment", "check-package"])
def test_no_script_installs_or_builds_with_what_no_hash_pins(name: str) -> None:
    lines = (ROOT / "scripts" / name).read_text(encoding="utf-8").splitlines()
    installs = [line for line in lines if INSTALLS.search(line) and "grep" not in line]
    assert installs
    for line in installs:
        # Our own wheel: built by what is installed, and nothing is fetched.
        if "--no-build-isolation" in line:
            assert "--offline" in line, line
            continue
        hashed = "--require-hashes" in line or re.search(r"--constraints \S*requirements/dev", line)
        assert hashed, line
        # Whatever has no wheel would be built with the newest of the index.
        wheels = ("--no-build ", "--only-binary :all:", '"${builds[@]}"')
        assert any(words in line for words in wheels), line


def test_no_other_script_installs() -> None:
    """A further one belongs into the list above."""
    found = set()
    for path in (ROOT / "scripts").iterdir():
        if path.is_file() and path.suffix != ".py":
            lines = path.read_text(encoding="utf-8").splitlines()
            code = (line for line in lines if not line.lstrip().startswith("#"))
            if any(INSTALLS.search(line) and "grep" not in line for line in code):
                found.add(path.name)
    assert found == {"venv", "environment", "check-package"}
