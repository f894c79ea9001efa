#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: apply_verdict
short_description: Fail on machines that are not as declared
version_added: 0.1.0
description:
  - Fails, or reports as unreachable, those machines of the play that M(tpu.fleet.apply) lists as
    failures. Does nothing on others.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  failures:
    description: RV(tpu.fleet.apply#module:failures) of the call.
    type: dict
    required: true
attributes:
  check_mode:
    description: It changes nothing.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: See which are not as declared
  tpu.fleet.apply_verdict:
    failures: "{{ applied.failures }}"
"""

RETURN = r"""#"""
