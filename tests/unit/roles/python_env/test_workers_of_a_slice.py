"""In a play, the workers of other slices have no say in what a slice gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

ROLE = Path(__file__).resolve().parents[4] / "roles" / "python_env"
BUILT = {"venvs": {"main": {"python_version": "3.11.9", "packages": {"jax": "0.6.2"}}}}


def worker(name: str, of: str, lock: str, built: Any = BUILT, says: str = "") -> dict[str, Any]:
    """Return a worker's variables: its slice is the inventory's, its results are its own."""
    return {
        "inventory_hostname": name,
        "tpu_vm_name": of,
        "__python_env_prepared": {"slice": says or of, "locks": {"wish": lock}},
        "__python_env_built": {"slice": says or of, **built} if isinstance(built, dict) else built,
    }


def evaluated(here: dict[str, Any], workers: list[dict[str, Any]], file: str, what: str) -> Any:
    """Evaluate a variable of the first task of a file as a worker of the play does."""
    loader = DataLoader()

    def load(path: str) -> Any:
        return loader.load_from_file(str(ROLE / path), trusted_as_template=True)

    variables = {
        **load("defaults/main.yml"),
        **load("vars/main.yml"),
        **load(f"tasks/{file}.yml")[0]["vars"],
        **here,
        "hostvars": {one["inventory_hostname"]: one for one in workers},
        "groups": {},
        "ansible_play_hosts": [one["inventory_hostname"] for one in workers],
    }
    return Templar(loader=loader, variables=variables).template(variables[what])


@pytest.mark.parametrize("known", [True, False], ids=["inventory", "no-inventory"])
def test_a_lock_comes_from_the_same_slice_of_the_inventory(known: bool) -> None:
    evil = worker("evil-w0", "evil", "evil", says="pair")
    pair = [worker("pair-w0", "pair", "first"), worker("pair-w1", "pair", "second")]
    if not known:
        for one in (evil, *pair):
            del one["tpu_vm_name"]
    found = evaluated(pair[1], [evil, *pair], "configure", "__python_env_resolved")
    assert found["locks"] == {"wish": "first" if known else "second"}


@pytest.mark.parametrize("built", [BUILT, {"venvs": 7}, {"venvs": {"main": {"packages": []}}}, 7])
def test_other_slices_are_not_compared_with(built: Any) -> None:
    other = {"venvs": {"main": {"python_version": "2.7", "packages": {}}}}
    pair = [worker("pair-w0", "pair", ""), worker("pair-w1", "pair", "")]
    evil = [
        worker("evil-w0", "evil", "", other, says="pair"),
        worker("evil-w1", "evil", "", built, says="pair"),
    ]
    assert evaluated(pair[0], [*evil, *pair], "verify", "__python_env_differences") == []


def test_what_a_worker_cannot_have_built_is_a_difference_of_it_alone() -> None:
    changed = {"venvs": {"main": {"python_version": "3.11.9", "packages": {"jax": "0.7.0"}}}}
    pair = [
        worker("pair-w0", "pair", "", {"venvs": {"main": {"packages": ["x"]}}}),
        worker("pair-w1", "pair", ""),
        worker("pair-w2", "pair", "", changed),
    ]
    found = evaluated(pair[1], pair, "verify", "__python_env_differences")
    assert [text.split()[0] for text in found] == ["pair-w0:", "pair-w2"]
    assert "its answer is not accepted: venvs.main.packages is 'a list of 1'" in found[0]
