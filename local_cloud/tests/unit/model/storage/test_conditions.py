"""Which preconditions hold for which object."""

from __future__ import annotations

import pytest

from tpu_local_cloud.compute_errors import ComputeError
from tpu_local_cloud.model.storage import conditions

FOUND = {"generation": "7", "metageneration": "2"}


@pytest.mark.parametrize(
    ("query", "found", "code"),
    [
        ({}, None, 0),
        ({"ifGenerationMatch": "0"}, None, 0),
        ({"ifGenerationMatch": "0"}, FOUND, 412),
        ({"ifGenerationMatch": "7"}, FOUND, 0),
        ({"ifGenerationMatch": "6"}, FOUND, 412),
        ({"ifGenerationMatch": "7"}, None, 412),
        ({"ifGenerationNotMatch": "0"}, None, 412),
        ({"ifGenerationNotMatch": "0"}, FOUND, 0),
        ({"ifGenerationNotMatch": "7"}, FOUND, 412),
        ({"ifMetagenerationMatch": "2"}, FOUND, 0),
        ({"ifMetagenerationMatch": "1"}, FOUND, 412),
        ({"ifMetagenerationNotMatch": "2"}, FOUND, 412),
        ({"ifMetagenerationNotMatch": "1"}, FOUND, 0),
        ({"ifGenerationMatch": "7", "ifMetagenerationMatch": "1"}, FOUND, 412),
    ],
)
def test_preconditions(query: dict[str, str], found: dict[str, str] | None, code: int) -> None:
    wanted = conditions.of_query(query)
    if not code:
        wanted.check(found)
        return
    with pytest.raises(ComputeError) as refused:
        wanted.check(found)
    assert refused.value.http == code


def test_a_reader_with_the_newest_one_gets_304() -> None:
    wanted = conditions.of_query({"ifGenerationNotMatch": "7"})
    with pytest.raises(ComputeError) as refused:
        wanted.check(FOUND, reading=True)
    assert refused.value.http == 304
    other = conditions.of_query({"ifGenerationMatch": "6"})
    with pytest.raises(ComputeError) as refused:
        other.check(FOUND, reading=True)
    assert refused.value.http == 412


def test_those_of_a_source_and_of_headers() -> None:
    query = {"ifSourceGenerationMatch": "3", "ifGenerationMatch": "4"}
    assert conditions.of_query(query, "ifSource").wanted == {"GenerationMatch": "3"}
    headers = {"x-goog-if-generation-match": "0", "x-goog-if-metageneration-match": "1"}
    found = conditions.of_headers(headers).wanted
    assert found == {"GenerationMatch": "0", "MetagenerationMatch": "1"}


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(ComputeError, match="ifGenerationMatch: 'x' is no generation"):
        conditions.of_query({"ifGenerationMatch": "x"})
