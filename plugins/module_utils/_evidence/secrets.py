# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leave out of a text what looks like a secret: people send evidence to others. Pure."""

from __future__ import annotations

import re

HIDDEN = "***"
_WORDS = r"secret|passw|credential|private|api_?key|_key|-key|token(?!iz|s\b)|auth(?!or)"
_NAME = rf"(?<![\w.-])[\w.-]*(?:{_WORDS})[\w.-]*"
_OPTION = rf"(?<![\w-])--?(?:[\w.-]*(?:{_WORDS})[\w.-]*)"
_VALUE = r"(?:\"[^\"]*\"|'[^']*'|[^\s,;&\"']+)"
# An option with its value, and whatever else has a name and a value.
_NAMED = re.compile(
    rf"(?i)({_NAME}(?:[\"']?\s*[=:]\s*))(?!//)({_VALUE})|({_OPTION}\s+)(?!-)({_VALUE})"
)
_BEARER = re.compile(r"(?i)\b((?:bearer|basic)\s+)[\w.~+/=-]{8,}")
_ADDRESS = re.compile(r"(\w+://)[^\s/@:]*:[^\s/@]+@")
_SHAPES = re.compile(
    r"ya29\.[\w-]{10,}|hf_\w{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|sk-[\w-]{16,}|AKIA[0-9A-Z]{12,}|ASIA[0-9A-Z]{12,}|AIza[\w-]{30,}|xox[abprs]-[\w-]{10,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
)
"""Tokens of Google, Hugging Face, GitHub, GitLab, OpenAI, AWS, Slack, and signed ones (JWT)."""
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*")


def without_secrets(text: str) -> str:
    """Return the text with `***` in the place of values that look like secrets."""
    text = _NAMED.sub(lambda found: f"{found[1] or found[3]}{HIDDEN}", text)
    text = _BEARER.sub(rf"\1{HIDDEN}", text)
    text = _ADDRESS.sub(rf"\1{HIDDEN}@", text)
    return _PEM.sub(HIDDEN, _SHAPES.sub(HIDDEN, text))
