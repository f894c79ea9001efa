# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say where requirements that exclude each other are declared. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .plan import NAME, VenvSpec, framework_requirements, normal_name

# uv names what it could not bring together as `jax==0.10.1`.
_UNSATISFIABLE = re.compile(r"unsatisfiable|No solution found")
_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?(?:[<>=!~]=?|===)")


def declared_twice(message: str, spec: VenvSpec, accelerator: str, files: Mapping[str, str]) -> str:
    """Return a sentence for each package of uv's message that is required in several places."""
    if not _UNSATISFIABLE.search(message):
        return ""
    named = dict.fromkeys(normal_name(name) for name in _NAMED.findall(message))
    places: dict[str, list[str]] = {name: [] for name in named}
    for place, line in _lines(spec, accelerator, files):
        match = NAME.match(line)
        name = normal_name(match[1]) if match else ""
        if name in places:
            places[name].append(f"{line.split(' #')[0].strip()} by {place}")
    return "".join(
        f" {name} is required in {len(found)} places: {', '.join(found)}."
        for name, found in places.items()
        if len(found) > 1
    )


def _lines(spec: VenvSpec, accelerator: str, files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each requirement."""
    for line in framework_requirements(spec, accelerator):
        yield "framework and framework_version of the venv", line
    for line in spec.packages:
        yield "packages of the venv", line
    for line in spec.constraints:
        yield "constraints", line
    for path, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            yield f"{path}, line {number}", line
