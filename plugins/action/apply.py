# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask all hosts of the play to apply roles to themselves, over one connection each."""

from __future__ import annotations

import asyncio
import getpass
import socket
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils._core.errors import TpuError
from ..plugin_utils import apply_bundle
from ..plugin_utils.apply_prepare import asked_for, prepare, show
from ..plugin_utils.apply_report import recap
from ..plugin_utils.apply_run import Call, Outcome, disagreements
from ..plugin_utils.apply_talk import SILENCE
from ..plugin_utils.fan_out import Settings
from ..plugin_utils.ssh_failures import LocalTrouble
from ..plugin_utils.ssh_targets import SshConfigError

display = Display()


class ActionModule(ActionBase):
    """One call of all hosts."""

    BYPASS_HOST_LOOP = True
    _requires_connection = False
    _supports_check_mode = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send everybody what they are to be; show what they do; collect how it ended."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _found, options = self.validate_argument_spec(
            {
                "plays": {"type": "list", "elements": "str", "default": []},
                "roles": {"type": "list", "elements": "str", "default": []},
                "timeout": {"type": "float", "default": 0.0},
                "forced": {"type": "bool", "default": False},
                "every": {"type": "str", "default": ""},
                "connects": {"type": "int", "default": 64},
                "publishes": {"type": "bool", "default": False},
            }
        )
        given = task_vars or {}
        hosts: list[str] = list(given["ansible_play_hosts"])
        roles = asked_for(options["plays"], given, options["roles"])
        result.update(changed=False, failures={}, hosts={})
        if not roles or not hosts:
            result.update(skipped=True, msg="nothing that these machines do is asked for")
            return result
        try:
            orders, targets = prepare(self, hosts, roles, options, given)
            who = f"{getpass.getuser()}@{socket.gethostname()}"
            settings = Settings(connects=options["connects"], silence=SILENCE)
            publishes = options["publishes"]
            call = Call(orders, apply_bundle.agent(), who, show, settings, publishes)
            outcomes = asyncio.run(call.run(targets, options["timeout"]))
        except TpuError as error:
            raise AnsibleActionFail(str(error)) from error
        except (LocalTrouble, SshConfigError) as error:
            raise AnsibleActionFail(f"{error} {getattr(error, 'remedy', '')}".strip()) from error
        outcomes = disagreements(outcomes, {one.host: one.slice for one in orders})
        for text, colour in recap(outcomes):
            display.display(text, color=colour)
        result.update(
            changed=any(outcome.counts.get("changed") for outcome in outcomes),
            hosts={outcome.host: _told(outcome) for outcome in outcomes},
            shared={n: g.shared for n, g in call.groups.items() if publishes and g.shared},
            failures={one.host: _told(one) for one in outcomes if one.status != "ok"},
        )
        return result


def _told(outcome: Outcome) -> dict[str, Any]:
    return {
        "status": outcome.status,
        "counts": dict(outcome.counts),
        "reasons": list(outcome.reasons),
        "problem": outcome.problem,
        "seconds": round(outcome.seconds, 1),
    }
