"""The text of a definition with another version of the code."""

from __future__ import annotations

import json

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.training_run.definition_text import (
    text_of,
    with_version,
)

DEFINITION = {"run": "digits", "workdir": "/old", "code": {"tree": "toy", "version": "1"}}


@pytest.mark.parametrize(("version", "then"), [("1", "2"), ("", "")])
def test_a_run_that_does_not_follow_the_code_notes_no_version(version: str, then: str) -> None:
    before = {**DEFINITION, "code": {"tree": "toy", "version": version}}
    text = with_version(before, {"path": "/new", "version": "2"})
    wanted = {**DEFINITION, "workdir": "/new", "code": {"tree": "toy", "version": then}}
    assert json.loads(text) == wanted
    assert text == text_of(wanted)
