"""Whether what `tpu-fleet … --json` prints has the form that is declared for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from tpu_fleet.contract import printing
from tpu_fleet.contract.forms import FORMS, Form, schema


def strict(form: Any) -> Any:
    """Return a form that has no key but its own; users may meet more in a later version."""
    if isinstance(form, list):
        return [strict(one) for one in form]
    if not isinstance(form, dict):
        return form
    inner = {key: strict(value) for key, value in form.items()}
    return {**inner, "additionalProperties": False} if "properties" in form else inner


VALIDATORS = {
    command: jsonschema.Draft202012Validator(strict(schema(command))) for command in FORMS
}


def wrong(command: str, body: Any) -> list[str]:
    """Return where a document differs from its form, and how."""
    # As a program reads it: tuples are lists, and keys are texts.
    read = json.loads(json.dumps(body))
    errors = VALIDATORS[command].iter_errors(read)
    return [f"{one.json_path}: {one.message[:300]}" for one in errors]


def command_of(words: Sequence[str]) -> str:
    """Return the command of a command line, as FORMS names it."""
    program = [at for at, word in enumerate(words) if word in ("tpu-fleet", "tpu_fleet")]
    told = words[program[0] + 1 :] if program else words
    plain = [word for word in told if not word.startswith("-")]
    names = [f"{plain[0]} --queue"] if "--queue" in told else []
    names += [" ".join(plain[:2]), plain[0]]
    return next(name for name in names if name in FORMS)


def conforms(words: Sequence[str], text: str) -> Any:
    """Return what a command has printed, which must have its form."""
    body = json.loads(text)
    assert wrong(command_of(words), body) == []
    return body


@pytest.fixture(scope="session", autouse=True)
def forms_are_kept() -> Iterator[None]:
    """Have each document that a test's own process prints compared with its form."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(printing, "written", _compared(printing.written))
        yield


def _compared(written: Any) -> Any:
    def compared(form: str, body: Mapping[str, Any], indent: int | None) -> str:
        if told := wrong(form, body):
            # An error of a command would only be its exit code to some tests.
            raise SystemExit(f"{form} --json: {told}")
        return str(written(form, body, indent))

    compared.__wrapped__ = written  # type: ignore[attr-defined]
    return compared


def example(form: Form) -> Any:
    """Return a smallest value of a form."""
    if "anyOf" in form or not form:
        return None
    if "enum" in form:
        return form["enum"][0]
    made: dict[str, Any] = {
        "string": "",
        "integer": 0,
        "number": 0.5,
        "boolean": False,
        "array": [],
        "object": {key: example(form["properties"][key]) for key in form.get("required", ())},
    }
    return made[form["type"]]
