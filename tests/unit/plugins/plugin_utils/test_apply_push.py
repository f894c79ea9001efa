"""Who is left out of a push."""

from __future__ import annotations

from ansible_collections.tpu.fleet.plugins.plugin_utils.apply_push import Answer, idle

SLICES = {"solo": "solo", "w0": "pair", "w1": "pair"}


def answers(**roles: list[str] | None) -> dict[str, Answer]:
    return {
        host: Answer(host, told or (), (), answered=told is not None)
        for host, told in roles.items()
    }


def test_who_has_nothing_to_do_is_left_out() -> None:
    assert idle(answers(solo=[], w0=[], w1=[]), SLICES) == ["solo", "w0", "w1"]


def test_workers_of_a_slice_are_left_out_together() -> None:
    assert idle(answers(solo=[], w0=[], w1=["host_base"]), SLICES) == ["solo"]


def test_who_does_not_answer_is_not_left_out() -> None:
    assert idle(answers(solo=None, w0=[], w1=[]), SLICES) == ["w0", "w1"]
