# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Client of GitHub's REST API for SSH keys; the token is sent only to its host."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .._wire.auth import HAS_REQUESTS, destination

if HAS_REQUESTS or TYPE_CHECKING:
    import requests
    from requests.auth import AuthBase
else:
    AuthBase = object

# Variables of the environment that hold a token, in the order in which they are looked at.
TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")
VERSION = "2022-11-28"
PAGE = 100
TIMEOUT = (10.0, 60.0)
TRIES = 4
# A longer pause that GitHub requests is reported instead of waited for.
LONGEST_PAUSE = 60.0
LOGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,37}[A-Za-z0-9])?")
_NEXT = re.compile(r'<[^>]*>;\s*rel="next"')

REMEDIES = {
    401: "Give a token that is valid: set GITHUB_TOKEN, or fleet_github_token from a vault",
    403: "Give the token the permission: for keys of a user 'Git SSH keys' (read and write), for "
    "deploy keys 'Administration' of the repository (read and write)",
    404: "Check the repository's name, and what the token may: a classic one needs the scope "
    "admin:public_key for keys of a user, and repo for deploy keys",
    422: "A key opens one account or one repository. Remove it where it is, or declare another",
}


class GitHubError(Exception):
    """A refusal of GitHub, with its remedy."""

    def __init__(self, message: str, remedy: str = "", status: int = 0) -> None:
        super().__init__(message)
        self.remedy = remedy
        self.status = status

    def __str__(self) -> str:
        return f"{self.args[0]}. {self.remedy}." if self.remedy else f"{self.args[0]}."


class _Token(AuthBase):
    """Adds the token to each request, as an auth object so that no netrc file replaces it."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the header."""
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def check_url(url: str) -> None:
    """Raise if a token must not go to this place."""
    parts = urlsplit(url)
    if not parts.hostname or parts.scheme not in ("https", "http"):
        raise GitHubError(
            f"api_url = {url!r} is no address", "Write https://api.github.com, or leave it out"
        )
    if parts.scheme == "http" and destination(url) != "loopback":
        raise GitHubError(
            f"The token is not sent to {url}: others could read it on the way",
            "Write https:// in api_url",
        )
    if parts.username or parts.query or parts.fragment:
        raise GitHubError(f"api_url = {url!r} holds more than an address", "Leave the rest out")


class _Nobody(AuthBase):
    """Adds no token, as an auth object so that no netrc file adds one."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Leave the headers as they are."""
        return request


class GitHub:
    """The keys of one account, and of the repositories that it administers.

    Without an account (the token is None) what is public.
    """

    def __init__(
        self, url: str, token: str | None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        check_url(url)
        if token == "":
            raise GitHubError("There is no token for GitHub", REMEDIES[401], 401)
        self.url = url.rstrip("/")
        self._sleep = sleep
        self._session = requests.Session()
        # Endpoints on this machine are used without a proxy.
        self._session.trust_env = destination(url) != "loopback"
        self._session.auth = _Nobody() if token is None else _Token(token)
        self._session.headers.update(
            {
                "Accept": "application/vnd.github+json",
                "X-GitHub-Api-Version": VERSION,
                "User-Agent": "ansible-collection-tpu-fleet",
            }
        )

    def keys(self, path: str) -> list[dict[str, Any]]:
        """Return all keys of a place."""
        found: list[dict[str, Any]] = []
        page = 1
        while True:
            answer = self._send("GET", path, {"per_page": PAGE, "page": page})
            items = answer.json()
            found += [dict(item) for item in items if isinstance(item, dict)]
            # Only the number is taken from the link: the answer must not redirect the token.
            if not _NEXT.search(answer.headers.get("Link", "")):
                return found
            page += 1

    def add(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Add a key. Not repeated, because it may have been added although the answer was lost."""
        return dict(self._send("POST", path, body=body, tries=1).json())

    def remove(self, path: str, number: int) -> None:
        """Remove a key; a missing one counts as removed."""
        try:
            self._send("DELETE", f"{path}/{number}")
        except GitHubError as error:
            if error.status != 404:
                raise

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        tries: int = TRIES,
    ) -> requests.Response:
        pause = 0.5
        while True:
            tries -= 1
            try:
                answer = self._session.request(
                    method,
                    self.url + path,
                    params=dict(query or {}),
                    json=dict(body) if body is not None else None,
                    timeout=TIMEOUT,
                    # The token must not follow a redirection.
                    allow_redirects=False,
                )
            except requests.exceptions.RequestException as error:
                if not tries:
                    raise GitHubError(
                        f"{self.url} does not answer: {type(error).__name__}",
                        "Check the network, and fleet_github_api_url",
                    ) from error
            else:
                if answer.status_code < 300:
                    return answer
                if not tries or not _again(answer):
                    raise refusal(answer.status_code, _said(answer), method, path)
                pause = max(pause, _asked_pause(answer))
            self._sleep(pause)
            pause = min(2 * pause, 20.0)


def public_keys(url: str, login: str) -> list[str]:
    """Return the public keys of an account, which GitHub publishes."""
    if not LOGIN.fullmatch(login):
        raise GitHubError(f"{login!r} is not a name on GitHub", "Write it as in github.com/NAME")
    return [str(item.get("key") or "") for item in GitHub(url, None).keys(f"/users/{login}/keys")]


def _again(answer: requests.Response) -> bool:
    """Return whether the same request may be answered later."""
    if answer.status_code in (403, 429):
        limited = answer.headers.get("X-RateLimit-Remaining") == "0"
        asked = "Retry-After" in answer.headers
        return (limited or asked) and _asked_pause(answer) <= LONGEST_PAUSE
    return answer.status_code >= 500


def _asked_pause(answer: requests.Response) -> float:
    try:
        if "Retry-After" in answer.headers:
            return float(answer.headers["Retry-After"])
        if answer.headers.get("X-RateLimit-Remaining") == "0":
            # By GitHub's clock, not this computer's.
            now = parsedate_to_datetime(answer.headers["Date"]).timestamp()
            return max(0.0, float(answer.headers["X-RateLimit-Reset"]) - now)
    except (KeyError, TypeError, ValueError):
        pass
    return 0.0


def _said(answer: requests.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return {}


def refusal(status: int, said: Any, method: str, path: str) -> GitHubError:
    """Return the error that an answer means."""
    said = said if isinstance(said, dict) else {}
    words = [str(said.get("message") or "no reason given")]
    for error in said.get("errors") or ():
        if isinstance(error, dict) and (error.get("message") or error.get("code")):
            words.append(str(error.get("message") or f"{error.get('field')}: {error['code']}"))
    text = "; ".join(words)
    remedy = REMEDIES.get(status, "")
    if "rate limit" in text.lower():
        remedy = "Wait until GitHub answers again, an hour at most"
    elif 300 <= status < 400:
        remedy = "Correct api_url, or the name of the repository: it may have moved"
    elif status >= 500:
        remedy = "Try again later"
    return GitHubError(f"GitHub answered {status} to {method} {path}: {text}", remedy, status)
