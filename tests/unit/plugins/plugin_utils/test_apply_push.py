"""What is pushed to whom."""

from __future__ import annotations

from ansible_collections.tpu.fleet.plugins.plugin_utils.apply_push import Answer, to_push

SLICES = {"solo": "solo", "w0": "pair", "w1": "pair"}
ROLES = ["host_base", "user_accounts", "python_env"]


def answers(**roles: list[str] | None) -> dict[str, Answer]:
    return {
        host: Answer(host, told or (), (), answered=told is not None)
        for host, told in roles.items()
    }


def pushed(**roles: list[str] | None) -> dict[str, list[str]]:
    return to_push(answers(**roles), SLICES, ROLES)


def test_who_has_nothing_to_do_is_left_out() -> None:
    assert pushed(solo=[], w0=[], w1=[]) == {"solo": [], "w0": [], "w1": []}


def test_workers_of_a_slice_do_together_what_one_of_them_has_to_do() -> None:
    both = ["host_base", "python_env"]
    assert pushed(solo=[], w0=["python_env"], w1=["host_base"]) == {
        "solo": [],
        "w0": both,
        "w1": both,
    }


def test_who_does_not_answer_gets_everything() -> None:
    assert pushed(solo=None, w0=[], w1=[]) == {"solo": ROLES, "w0": [], "w1": []}
