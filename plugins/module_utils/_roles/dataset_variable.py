# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment variable with the path of a data set. No I/O."""

from __future__ import annotations

import re

PREFIX = "TPU_FLEET_DATASET_"


def variable_of(name: str) -> str:
    """Return the variable in which programs find the path of a data set."""
    return PREFIX + re.sub("[^A-Z0-9]", "_", name.upper())
