# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of a definition. No I/O, and few imports, because each sync waits for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def text_of(value: Any) -> str:
    """Return the text of a file: any changed byte of a definition restarts the run."""
    return json.dumps(value, indent=4, sort_keys=True, separators=(",", ": ")) + "\n"


def with_version(definition: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    """Return the text of a definition for another version of its code tree."""
    code = dict(definition["code"])
    if code["version"]:
        code["version"] = record["version"]
    return text_of({**definition, "workdir": record["path"], "code": code})
