# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys that GitHub publishes."""

from __future__ import annotations

from pathlib import Path

import pytest
import responses
from ansible_collections.tpu.fleet.plugins.module_utils._github.client import (
    GitHub,
    GitHubError,
    public_keys,
)

URL = "https://github.example/api"
KEYS = f"{URL}/users/octo-cat/keys"


@responses.activate
def test_they_are_read_without_any_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine github.example login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    responses.get(KEYS, json=[{"id": 1, "key": "ssh-ed25519 AAAA"}, {"id": 2}, "rubbish"])
    assert public_keys(URL, "octo-cat") == ["ssh-ed25519 AAAA", ""]
    assert "Authorization" not in responses.calls[0].request.headers


@responses.activate
def test_somebody_who_is_not_there() -> None:
    responses.get(KEYS, status=404, json={"message": "Not Found"})
    with pytest.raises(GitHubError) as error:
        public_keys(URL, "octo-cat")
    assert error.value.status == 404


@pytest.mark.parametrize("name", ["", "../user", "a b", "-a", "a/b", "a?x=1", "ä", "a\n", "x" * 40])
def test_what_is_no_name_is_never_sent(name: str) -> None:
    with pytest.raises(GitHubError, match="is not a name on GitHub"):
        public_keys(URL, name)


def test_a_missing_token_is_not_nobody() -> None:
    with pytest.raises(GitHubError, match="There is no token"):
        GitHub(URL, "")
