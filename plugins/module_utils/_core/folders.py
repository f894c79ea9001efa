# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders that a person names, which may be below another user's."""

from __future__ import annotations

import os
from pathlib import Path


def is_folder(path: Path) -> bool:
    """Return whether there is a folder that this user may see."""
    # Path.is_dir raises PermissionError below another user's folder, up to Python 3.13.
    return os.path.isdir(path)  # noqa: PTH112
