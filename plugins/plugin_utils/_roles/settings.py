# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn the variables of a role into what its module takes, by the role's argument specification."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ...module_utils._schema.amounts import for_machines
from ...module_utils._schema.off import without_nulls
from .specs import options_of

Options = Mapping[str, Mapping[str, Any]]


class WrongSettingsError(Exception):
    """The variables of a role do not have the types of its argument specification."""


def settings_of(role: str, variables: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return `settings` and `secrets` of a role's module; amounts are as it takes them.

    The settings have every option of the role, by its name without the role's, in its declared type
    and with its default. Values with no_log are among the secrets instead, by their path in the
    settings: `sets/0/values`. What has neither a value nor a default is None.
    Raise WrongSettingsError if a value does not have its type.
    """
    options = options_of(role)
    # The validation fills in the keys of a default.
    given = without_nulls(options, variables)
    checked = ArgumentSpecValidator(_as_text(copy.deepcopy(options))).validate(given)
    if checked.error_messages:
        raise WrongSettingsError(" ".join(checked.error_messages))
    settings: dict[str, Any] = {}
    secrets: dict[str, Any] = {}
    for name, option in options.items():
        key = name.removeprefix(f"{role}_")
        # The validation makes an empty text of null.
        off = name in given and given[name] is None
        try:
            value = for_machines(name, None if off else checked.validated_parameters[name])
        except ValueError as error:
            raise WrongSettingsError(str(error)) from None
        secrets.update(_taken_out(value, option, key))
        settings[key] = None if key in secrets else value
    return {"settings": settings, "secrets": secrets}


def _as_text(options: Options) -> dict[str, dict[str, Any]]:
    """Return the options with paths as texts, because ~ is not the home of this computer's user."""
    found = {}
    for name, option in options.items():
        mine = {**option, "type": "str" if option["type"] == "path" else option["type"]}
        if option.get("elements") == "path":
            mine["elements"] = "str"
        if "options" in option:
            mine["options"] = _as_text(option["options"])
        found[name] = mine
    return found


def _taken_out(value: Any, option: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    """Yield what is secret in a value, with its path; take it out of its entry."""
    if value is None:
        return
    if option.get("no_log"):
        yield path, value
        return
    inner = option.get("options", {})
    several = isinstance(value, list)
    for index, entry in enumerate(value if several else [value] if inner else ()):
        at = f"{path}/{index}" if several else path
        for key in inner:
            found = dict(_taken_out(entry[key], inner[key], f"{at}/{key}"))
            if f"{at}/{key}" in found:
                del entry[key]
            yield from found.items()
