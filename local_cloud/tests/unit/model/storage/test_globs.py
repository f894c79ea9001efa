"""What a pattern of names matches."""

from __future__ import annotations

import pytest

from tpu_local_cloud.compute_errors import ComputeError
from tpu_local_cloud.model.storage import globs

NAMES = ["a", "a/1/x", "a/2/x", "a/2/b/x", "a/1/y", "b*", "a\nb"]


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("a/*/x", ["a/1/x", "a/2/x"]),
        ("a/**/x", ["a/1/x", "a/2/x", "a/2/b/x"]),
        ("a/**", ["a/1/x", "a/2/x", "a/2/b/x", "a/1/y"]),
        ("**/x", ["a/1/x", "a/2/x", "a/2/b/x"]),
        ("a/?/{x,y}", ["a/1/x", "a/2/x", "a/1/y"]),
        ("a/[2-9]/x", ["a/2/x"]),
        ("a/[!2]/x", ["a/1/x"]),
        ("b\\*", ["b*"]),
        ("*", ["a", "b*", "a\nb"]),
    ],
)
def test_patterns(glob: str, names: list[str]) -> None:
    pattern = globs.pattern(glob)
    assert [name for name in NAMES if pattern.fullmatch(name)] == names


@pytest.mark.parametrize("glob", ["a{b", "a[b", "a[]"])
def test_half_a_bracket_is_refused(glob: str) -> None:
    with pytest.raises(ComputeError, match="bracket"):
        globs.pattern(glob)
