# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the address of a git repository. Pure."""

from __future__ import annotations

import re

from ..._core.plain_text import shown

# A user name without a password is allowed, as in ssh://git@host.
PASSWORD = re.compile(r"[a-z+]+://[^/@:]*:[^/@]+@|https?://[^/@]+@")
CLONE = re.compile(r"\s*git\s+clone\b")
SLASH_FOR_COLON = re.compile(r"(?P<server>[^/@:\s]+@[^/:]+)/(?P<path>.+)", re.DOTALL)
# A URL, HOST:PATH of ssh, or an absolute path on the machine.
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^/]*/.+|[^/:]+:.+|/.+", re.DOTALL)


def problem_of(repo: str) -> tuple[str, str] | None:
    """Return (message, remedy) if git cannot use a text as an address; neither has a password."""
    if CLONE.match(repo):
        return "is a command", "Write the address alone: leave out `git clone`"
    if PASSWORD.match(repo):
        remedy = "Use SSH with a key of the role git_access, or put the password into ~/.netrc"
        return "has a password or token, which all users of the host could read", remedy
    if repo.startswith("-"):
        return "begins with a dash", "Set the URL of a repository"
    if slash := SLASH_FOR_COLON.fullmatch(repo):
        right = shown(f"{slash['server']}:{slash['path']}", 200)
        return "has a slash where ssh needs a colon", f"Write {right}"
    if not ADDRESS.fullmatch(repo):
        remedy = "Write https://HOST/OWNER/NAME.git or git@HOST:OWNER/NAME.git"
        return "is not the address of a git repository", remedy
    return None
