"""The playbook that a command names, and which hosts it is limited to."""

from __future__ import annotations

from typing import Any

import pytest

from tpu_fleet.commands.playbook import How, words_of


@pytest.mark.parametrize(
    ("how", "given", "line"),
    [
        (How(), {}, "ansible-playbook tpu.fleet.site"),
        (How(check=True, diff=True), {}, "ansible-playbook tpu.fleet.site --check --diff"),
        (How(limit="pair-w0"), {"tags": ("code_checkout",)},
         "ansible-playbook tpu.fleet.site --tags code_checkout --limit pair-w0"),
        (How(), {"variables": {"teardown": "a b"}},
         "ansible-playbook tpu.fleet.site -e 'teardown=a b'"),
        (How().limited_to(["pair"]), {"variables": {"fleet_only": ["pair"]}},
         """ansible-playbook tpu.fleet.site -e '{"fleet_only": ["pair"]}' """
         "--limit localhost,tpu_slice_pair"),
    ],
)  # fmt: skip
def test_the_line_is_what_a_pipeline_calls(how: How, given: dict[str, Any], line: str) -> None:
    assert words_of("site", how, **given) == line


def test_all_slices_need_no_limit_and_new_ones_may_be_named() -> None:
    assert How().limited_to([]).limit is None
    # A limit of localhost alone would be refused, and a slice that is not there has no group.
    assert How().limited_to(["v6e-a"]).limit == "localhost,tpu-fleet-nobody,tpu_slice_v6e_a"
