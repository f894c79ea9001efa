"""What an environment must hold, and under which name."""

from __future__ import annotations

import netrc
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.plan import (
    Editable,
    VenvSpec,
    build_path,
    cuda_packages,
    differences,
    digest,
    has_hashes,
    installed_packages,
    is_away,
    lock_lines,
    netrc_line,
    pins,
    problems,
    pyproject,
    requirement_lines,
    split_torch,
    strange_lines,
    torch_names,
    tries_for,
    unknown_package,
    unmet,
    versions,
    wish,
    with_commits,
)


def spec(**changes: Any) -> VenvSpec:
    values: dict[str, Any] = {
        "name": "jax",
        "path": "/opt/venvs/jax",
        "python": "3.11",
        "framework": "jax",
        "framework_version": "0.10.2",
        "packages": ("optax==0.2.8",),
    }
    return VenvSpec(**{**values, **changes})


@pytest.mark.parametrize(
    ("accelerator", "lines"),
    [
        ("tpu", ["jax[tpu]==0.10.2", "optax==0.2.8"]),
        ("cpu", ["jax==0.10.2", "optax==0.2.8"]),
    ],
)
def test_the_framework_is_for_what_the_host_has(accelerator: str, lines: list[str]) -> None:
    assert requirement_lines(spec(), accelerator) == lines
    assert requirement_lines(spec(framework="none"), accelerator) == lines[1:]


@pytest.mark.parametrize(
    "changes",
    [
        {"owner": "alice"},
        {"python": "3.12"},
        {"framework_version": "0.10.1"},
        {"framework": "none"},
        {"packages": ("optax==0.2.7",)},
        {"requirements": "numpy\n"},
        {"constraints": ("numpy<3",)},
        {"environment": (("CFLAGS", "-O3"),)},
        {"editable": (Editable("/code/a"),)},
        {"editable": (Editable("/code/b"),)},
        {"editable": (Editable("/code/a", project="dependencies"),)},
    ],
)
def test_other_content_is_another_wish(changes: dict[str, Any]) -> None:
    assert wish(spec(**changes), "cpu") != wish(spec(), "cpu")


def test_the_same_content_is_the_same_build_wherever_it_lies() -> None:
    wanted = wish(spec(), "cpu")
    assert wish(spec(path="/elsewhere/jax", name="other"), "cpu") == wanted
    assert wish(spec(), "tpu") != wanted
    assert digest(wanted, "a==1\nb==2\n") == digest(wanted, "# a lock\nb==2\na==1 # of tool\n")
    assert digest(wanted, "a==1\n") != digest(wanted, "a==2\n")
    assert build_path(spec(), "0123456789abcdef") == "/opt/venvs/.jax-0123456789ab"
    assert build_path(spec(), "0123456789abcdef", 2) == "/opt/venvs/.jax-0123456789ab-2"


HASH = f"--hash=sha256:{'0' * 64}"


def test_a_lock_is_read_with_and_without_hashes() -> None:
    told = f"a==1 \\\n    {HASH} \\\n    {HASH}\n# a comment\nb @ file:///b\n"
    assert lock_lines(told) == [f"a==1 {HASH} {HASH}", "b @ file:///b"]
    assert digest("w", told) == digest("w", "a==1\nb @ file:///b\n")
    assert versions(told) == ["a==1"]
    assert has_hashes(told)
    assert not has_hashes("a==1\n")
    assert not has_hashes("")
    assert pins([f"a==1 {HASH}"]) == {"a": "1"}


@pytest.mark.parametrize(
    ("line", "strange"),
    [
        (f"a==1 {HASH}", False),
        ("a==1 ; python_version < '3.12'", False),
        ("b @ git+https://example.org/b@0123456789012345678901234567890123456789", False),
        ("-e /code/c", False),
        ("-e file:///code/c", False),
        ("d @ https://example.org/d-1-py3-none-any.whl#sha256=00", False),
        ("evil @ file:///home/alice/evil", True),
        ("b @ git+https://example.org/evil", True),
        ("-e /code", True),
        ("-e /code/c/../evil", True),
        ("--index-url https://example.org/simple", True),
        ("-r /etc/passwd", True),
        ("a>=1", True),
    ],
)
def test_what_another_host_resolved_holds_versions_and_asked_places(
    line: str, strange: bool
) -> None:
    wanted = spec(
        packages=("b @ git+https://example.org/b@main",),
        requirements="d @ https://example.org/d-1-py3-none-any.whl\n",
        editable=(Editable("/code/c", "[tpu]"),),
    )
    assert bool(strange_lines(f"{line}\n", wanted)) is strange


OWN, OTHER = "1" * 40, "2" * 40


@pytest.mark.parametrize(
    ("declared", "mine", "theirs", "other"),
    [
        ("b @ git+https://x/b@main", "b @ git+https://x/b", "b @ git+https://x/b", True),
        ("b @ git+https://x/b", "b @ git+https://x/b", "b @ git+https://x/b", True),
        # A commit that is declared, and another place.
        (f"b @ git+https://x/b@{OWN}", "b @ git+https://x/b", "b @ git+https://x/b", False),
        ("b @ git+https://x/b@main", "b @ git+https://x/b", "b @ git+https://x/evil", False),
        ("b @ git+https://x/b@main", "b @ git+https://x/b", "c @ git+https://x/b", False),
    ],
)
def test_the_commit_of_another_worker_where_none_is_declared(
    declared: str, mine: str, theirs: str, other: bool
) -> None:
    own, given = f"{mine}@{OWN}\n", f"{theirs}@{OTHER}\n"
    found = with_commits(f"a==1\n{own}", f"a==2\n{given}", spec(packages=(declared,)))
    assert found == f"a==1\n{given if other else own}"


def test_no_folder_of_another_worker_is_taken() -> None:
    own, given = "b @ file:///code/b\n-e /code/c\n", "b @ file:///code/evil\n-e /code/evil\n"
    assert with_commits(own, given, spec(packages=("b@file:///code/b",))) == own


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, []),
        ({"framework": "torch_xla", "framework_version": "2.9.0"}, ["torch"]),
        ({"packages": ("Torch==2.13.0", "torchvision")}, ["torch", "torchvision"]),
        ({"packages": ("torchmetrics", "pytorch-lightning")}, []),
        ({"requirements": "numpy\ntorch>=2 # the model\n"}, ["torch"]),
        ({"editable": (Editable("/a", project='dependencies = ["torch>=2"]\n'),)}, ["torch"]),
        ({"editable": (Editable("/a", project='dependencies = ["torchmetrics"]\n'),)}, []),
    ],
)
def test_what_comes_from_the_index_of_pytorch(changes: dict[str, Any], names: list[str]) -> None:
    assert torch_names(spec(**changes), "cpu") == names


def test_pytorch_comes_first() -> None:
    lock = "numpy==2\ntorch==2.9.0+cpu\ntorch_xla==2.9.0\ntorchaudio @ file:///x\n"
    first, rest = split_torch(lock)
    assert first == ["torch==2.9.0+cpu"]
    assert rest == ["numpy==2", "torch_xla==2.9.0", "torchaudio @ file:///x"]
    assert cuda_packages(f"{lock}nvidia-cublas==13\n") == ["nvidia-cublas==13"]
    text = pyproject(["torch"], "https://index.example.org/cpu")
    assert 'torch = { index = "torch" }' in text
    assert "explicit = true" in text


def test_what_is_installed_is_read_from_folder_names() -> None:
    names = ["numpy", "numpy-2.1.dist-info", "Foo_Bar-1.0+cpu.dist-info", "old-3-py3.11.egg-info"]
    assert installed_packages(names) == {"numpy": "2.1", "foo-bar": "1.0+cpu", "old": "3"}


@pytest.mark.parametrize(
    ("told", "away"),
    [
        ("error: Failed to fetch: `http://x/simple/uv/`\n  Caused by: tcp connect error", True),
        ("HTTP status server error (503 Service Unavailable) for url", True),
        (
            "Could not find a version that satisfies the requirement uv==1 (from versions: none)",
            True,
        ),
        ("dns error: failed to lookup address information", True),
        ("Because nothing was not found in the package registry", False),
        ("error: No space left on device (os error 28)", False),
        ("HTTP status client error (401 Unauthorized)", False),
    ],
)
def test_what_may_pass_is_tried_again(told: str, away: bool) -> None:
    assert is_away(told) is away


@pytest.mark.parametrize(
    ("told", "tries"),
    [
        ("failed to lookup address information: Name or service not known", 1),
        ("dns error: Temporary failure in name resolution", 2),
        ("error: Failed to fetch: tcp connect error", 5),
    ],
)
def test_a_name_that_nobody_knows_is_not_asked_for_again(told: str, tries: int) -> None:
    assert tries_for(told, 5) == tries
    assert tries_for(told, 1) == 1


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (
            "Because numpyy was not found in the package registry and you require numpyy, we can",
            "packages[1] = 'numpyy': no index has such a package. Correct its name",
        ),
        (
            "Because there is no version of idna==99 and you require idna==99, we can conclude",
            "packages[0] = 'idna==99': no index has such a package",
        ),
        ("Because jax was not found in the package registry", ""),
        ("error: No space left on device", ""),
    ],
)
def test_a_package_that_no_index_has_is_told_with_its_field(told: str, words: str) -> None:
    spec = VenvSpec("data", "/opt/venvs/data", "3.11", packages=("idna==99", "numpyy"))
    found = unknown_package(spec, f"uv pip compile … failed: {told}")
    assert words in found
    assert bool(found) is bool(words)


def worker(host: str, slice_name: str = "pair", **packages: str) -> dict[str, Any]:
    venv = {"python_version": "3.11.2", "packages": packages}
    return {"host": host, "slice": slice_name, "venvs": {"jax": venv}}


def test_a_worker_that_differs_is_named_with_its_packages() -> None:
    same = [worker("pair-w0", jax="1"), worker("pair-w1", jax="1"), worker("x", "other", jax="2")]
    assert differences(same) == []
    (told,) = differences([worker("pair-w0", a="1", b="1"), worker("pair-w1", a="2", c="1")])
    assert told == (
        "pair-w1 has another environment 'jax' than pair-w0: a is 2 instead of 1, "
        "b 1 is not there, c 1 is additional"
    )
    # One that could not be built, or is not declared there, is no difference.
    assert differences([{**same[0], "venvs": {}}, same[1]]) == []


def test_pins_are_read_as_indexes_name_them() -> None:
    lines = ["Foo_Bar==1.0", "jax[tpu]==0.10.2", "x>=2", "y==1.*", "z == 3 ; python_version > '3'"]
    assert pins(lines) == {"foo-bar": "1.0", "jax": "0.10.2", "z": "3"}


@pytest.mark.parametrize(
    ("python", "installed", "wrong"),
    [
        ("3.11.2", {"jax": "0.10.2", "optax": "0.2.8"}, []),
        ("3.10.12", {"jax": "0.10.2", "optax": "0.2.8"}, ["Python is 3.10.12 instead of 3.11"]),
        ("3.11.2", {"jax": "0.6.2", "optax": "0.2.8"}, ["jax is 0.6.2 instead of 0.10.2"]),
        ("3.11.2", {"jax": "0.10.2"}, ["optax is missing instead of 0.2.8"]),
    ],
)
def test_an_old_version_never_passes_silently(
    python: str, installed: dict[str, str], wrong: list[str]
) -> None:
    assert unmet(spec(), "cpu", python, installed) == wrong


def test_a_local_version_part_does_not_matter() -> None:
    assert (
        unmet(
            spec(packages=("torch==2.9.0",)),
            "cpu",
            "3.11.2",
            {"jax": "0.10.2", "torch": "2.9.0+cpu"},
        )
        == []
    )


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"name": "a/b"}, "name"),
        ({"path": "venv"}, "path"),
        ({"path": "/venv"}, "path"),
        ({"path": "/opt/../etc"}, "path"),
        ({"python": "latest"}, "python"),
        ({"framework_version": ""}, "framework_version"),
        ({"python": "3.10"}, "python"),
        ({"packages": ("libtpu-nightly",)}, "packages"),
    ],
)
def test_a_wrong_wish_names_its_field(changes: dict[str, Any], word: str) -> None:
    assert problems(spec()) == []
    (problem,) = problems(spec(**changes))
    assert f"{word} " in problem


# What uv reads, and pip since Python 3.11: before, Python's reader knew of no escapes.
ODD = ['a\\b"c', '"quoted"', "two words\\"] if sys.version_info >= (3, 11) else []


@pytest.mark.parametrize("password", ["plain-1!#%'", *ODD])
def test_a_reader_of_netrc_gets_the_login_back(password: str, tmp_path: Path) -> None:
    path = tmp_path / "netrc"
    path.write_text(netrc_line("example.org", "robot", password))
    found = netrc.netrc(str(path)).authenticators("example.org")
    assert found is not None
    assert (found[0], found[2]) == ("robot", password)
