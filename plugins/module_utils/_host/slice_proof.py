# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a worker shows that it is of the slice, or of the gang: by a key that all of them have.

What it asks for goes to `file_server.py`. Agents use this file too: standard library only.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping

NONCE, PROOF = "x-fleet-nonce", "x-fleet-proof"


def asking(key: str, path: str) -> dict[str, str]:
    """Return the headers with which a worker asks for a path."""
    nonce = secrets.token_hex(16)
    return {NONCE: nonce, PROOF: _made(key, "ask", path, nonce)}


def may_ask(key: str, path: str, headers: Mapping[str, str]) -> bool:
    """Return whether a worker with the key asks."""
    wanted = _made(key, "ask", path, headers.get(NONCE, ""))
    return bool(key) and _same(wanted, headers.get(PROOF, ""))


def answering(key: str, body: bytes, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of the answer to such a question."""
    return {PROOF: _of_answer(key, body, headers.get(NONCE, ""))}


def is_answer(key: str, body: bytes, asked: Mapping[str, str], proof: str) -> bool:
    """Return whether an answer to this question comes from a worker with the key."""
    return _same(_of_answer(key, body, asked[NONCE]), proof)


def _of_answer(key: str, body: bytes, nonce: str) -> str:
    return _made(key, "answer", hashlib.sha256(body).hexdigest(), nonce)


def _same(wanted: str, given: str) -> bool:
    # Of texts it takes plain ASCII alone.
    return hmac.compare_digest(wanted.encode(), given.encode("utf-8", "replace"))


def _made(key: str, *words: str) -> str:
    text = "\n".join(words).encode("utf-8", "replace")
    return hmac.new(key.encode(), text, hashlib.sha256).hexdigest()
