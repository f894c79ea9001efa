"""src/tpu_fleet/schemas/*.json: what `--json` of each command prints, for programs of users."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from tpu_fleet.contract.forms import FORMS, file_name, schema


def page(command: str) -> str:
    """Return the schema of a command."""
    return json.dumps(schema(command), indent=1) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    f"schemas/{file_name(command)}": partial(page, command) for command in FORMS
}
