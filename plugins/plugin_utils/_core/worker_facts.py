# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep workers from setting variables of the fleet file."""

from __future__ import annotations

from typing import Any

from ansible import constants
from ansible.errors import AnsibleError

from ...module_utils._core.answer import AnswerError
from ...module_utils._core.worker_words import READERS, plain

SETTING = "inject_facts_as_vars"
REMEDY = (
    "Write inject_facts_as_vars = false below [defaults] in ansible.cfg, or set "
    "ANSIBLE_INJECT_FACT_VARS=false"
)


def facts_are_variables() -> bool:
    """Say whether Ansible takes variables from the result of any module.

    It does by default: a worker in other hands could answer with facts that are named as variables
    of this collection, such as fleet_state_dir, which say where the controller writes.
    https://docs.ansible.com/ansible/latest/reference_appendices/config.html#inject-facts-as-vars
    """
    return bool(constants.config.get_config_value("INJECT_FACTS_AS_VARS"))


def read_answer(answer: Any, kind: str, worker: str) -> Any:
    """Make checked values of what a worker answered, or refuse it."""
    if facts_are_variables():
        raise AnsibleError(f"{SETTING} is on, so {worker} could set variables here. {REMEDY}.")
    try:
        return plain(READERS[kind](worker, answer))
    except AnswerError as error:
        raise AnsibleError(str(error)) from None
