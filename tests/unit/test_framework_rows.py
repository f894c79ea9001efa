"""How scripts/write_frameworks.py reads an index."""

from __future__ import annotations

import sys
from pathlib import Path

from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import write_frameworks as script  # noqa: E402 - of scripts/

LINUX = "manylinux_2_31"


def package(wheels: dict[str, list[str]], needs: str = "", python: str = "") -> script.Package:
    return script.Package(wheels, lambda _version: needs, dict.fromkeys(wheels, python))


def wheels(name: str, version: str, pythons: range, *processors: str) -> dict[str, list[str]]:
    return {
        version: [
            f"{name}-{version}-cp3{python}-cp3{python}-{LINUX}_{processor}.whl"
            for python in pythons
            for processor in processors
        ]
    }


JAX = """\
Requires-Dist: jaxlib<=2.1.0,>=2.0.0
Requires-Dist: jaxlib<=2.1.0,>=2.1.0; extra == "tpu"
Requires-Dist: libtpu==0.7.*; extra == "tpu"
Requires-Dist: jax-cuda==1; extra == "cuda"
"""
XLA = 'Requires-Dist: libtpu==0.6.0; extra == "tpu"\n'
TPU = "Requires-Dist: libtpu>=0.7\nRequires-Dist: torch<=2.9.1,>=2.9.0\n"
BOTH = ("x86_64", "aarch64")
INDEX = {
    "jax": package({"2.1.0": ["jax-2.1.0-py3-none-any.whl"]}, JAX, ">=3.12"),
    "jaxlib": package(
        {**wheels("jaxlib", "2.0.0", range(11, 13), *BOTH)}
        | wheels("jaxlib", "2.1.0", range(11, 16), *BOTH)
    ),
    "libtpu": package(
        wheels("libtpu", "0.6.0", range(10, 13), "x86_64")
        | {"0.7.0": ["libtpu-0.7.0-py3-none-manylinux_2_27_x86_64.whl"]}
        | wheels("libtpu", "0.7.1", range(12, 15), "x86_64")
    ),
    "torch": package({"2.8.0": [], "2.9.0": [], "2.9.1": [], "2.10.0": []}),
    "torch_xla": package(wheels("torch_xla", "2.8.1", range(10, 14), "x86_64"), XLA),
    "torch_tpu": package(
        {"0.2.0": [*wheels("torch_tpu", "0.2.0", range(11, 13), "x86_64")["0.2.0"]]}
        | {"0.0.0": ["torch_tpu-0.0.0-py2.py3-none-any.whl"]},
        TPU,
    ),
}


def test_rows_are_what_wheels_and_metadata_say() -> None:
    found = {
        name: script.row(name, INDEX[name].versions()[-1], INDEX.__getitem__)
        for name in script.PARTS
    }
    one = ("x86_64",)
    assert found == {
        "jax": ("2.1.0", (12, 15), ("0.7", "0.7"), ("", ""), ("aarch64", "x86_64"), one),
        "torch_xla": ("2.8.1", (10, 12), ("0.6.0", "0.6.0"), ("2.8.0", "2.8.0"), one, one),
        "torch_tpu": ("0.2.0", (11, 12), ("0.7", ""), ("2.9.0", "2.9.1"), one, one),
    }


def test_a_release_whose_libtpu_is_in_no_index_has_no_row() -> None:
    old = 'Requires-Dist: libtpu-nightly==0.1.dev1; extra == "tpu"\n'
    lost = 'Requires-Dist: libtpu==0.5.0; extra == "tpu"\n'
    for needs in ("", old, XLA + old, lost):
        index = {**INDEX, "torch_xla": package(INDEX["torch_xla"].wheels, needs)}
        assert script.row("torch_xla", "2.8.1", index.__getitem__) is None


def test_wheels_without_the_global_lock_do_not_count() -> None:
    names = [f"a-1-cp314-cp314t-{LINUX}_x86_64.whl", f"a-1-cp313-cp313-{LINUX}_aarch64.whl"]
    assert script.tags(names) == ({13}, {"aarch64"})


def test_the_ends_of_a_requirement() -> None:
    assert script.ends(SpecifierSet("==0.7.*")) == ("0.7", "0.7")
    assert script.ends(SpecifierSet(">=1,<=2")) == ("1", "2")
    assert script.ends(SpecifierSet("")) == ("", "")


def test_the_committed_file_has_the_form_that_the_script_writes() -> None:
    committed = script.TARGET.read_text()
    assert committed.startswith(script.HEAD)
    rows = {name: f'    "{name}": (\n' for name in script.PARTS}
    assert all(line in committed for line in rows.values())
