# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Credentials, found on first use and sent only to Google."""

from __future__ import annotations

import contextlib
import importlib.util
import ipaddress
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .._core.errors import CredentialsError, Unavailable

try:
    import requests
    from requests.auth import AuthBase

    HAS_REQUESTS = True
except ImportError:
    HAS_REQUESTS = False
    if not TYPE_CHECKING:
        AuthBase = object

# Importing google-auth takes longer than most requests, so only functions that need it do.
try:
    HAS_GOOGLE_AUTH = importlib.util.find_spec("google.auth") is not None
except ImportError:
    HAS_GOOGLE_AUTH = False

SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
LOGIN = "Run: gcloud auth application-default login"
GCLOUD_SECONDS = 60
QUOTA_ENV = "GOOGLE_CLOUD_QUOTA_PROJECT"
QUOTA_HEADER = "x-goog-user-project"
PROJECT_ID = re.compile(r"(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]*")


@dataclass(frozen=True)
class AuthOptions:
    """The user's settings for credentials; without any they are searched."""

    access_token: str | None = field(default=None, repr=False)
    service_account_file: str | None = None
    impersonate_service_account: str | None = None

    @property
    def given(self) -> bool:
        """Return whether the user named any credentials."""
        return bool(
            self.access_token or self.service_account_file or self.impersonate_service_account
        )


def destination(endpoint: str) -> str:
    """Return the kind of an endpoint: `google`, `loopback` or `other`."""
    parts = urlsplit(endpoint)
    host = (parts.hostname or "").lower()
    if host == "localhost" or _is_loopback(host):
        return "loopback"
    if parts.scheme == "https" and host.endswith(".googleapis.com"):
        return "google"
    return "other"


def session_for(endpoint: str, auth: AuthOptions) -> requests.Session:
    """Return a session with the credentials that this endpoint may receive."""
    place = destination(endpoint)
    if place == "other" and auth.given:
        raise CredentialsError(
            f"Credentials are not sent to {endpoint}: only https://*.googleapis.com may see them.",
            remedy="Correct api_endpoint, or give no credentials.",
        )
    if place == "loopback" and (auth.service_account_file or auth.impersonate_service_account):
        raise CredentialsError(
            f"Google credentials are not sent to {endpoint}.",
            remedy="Give no credentials, or an access_token that means something there.",
        )
    session = requests.Session()
    # A proxy would see requests to this machine; a netrc entry would be a credential.
    session.trust_env = place == "google"
    if place == "google" or auth.access_token:
        session.auth = TokenAuth(_supplier(auth))
    adapter = requests.adapters.HTTPAdapter(pool_connections=4, pool_maxsize=32)
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    session.headers["User-Agent"] = "ansible-collection-tpu-fleet"
    return session


class TokenAuth(AuthBase):
    """Has the supplier write the headers of each request."""

    def __init__(self, supplier: TokenSupplier) -> None:
        self.supplier = supplier

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the headers."""
        self.supplier.write(request.method or "", request.url or "", request.headers)
        return request

    def renew(self) -> bool:
        """Forget a refused token; return whether there can be another."""
        return self.supplier.renew()


class TokenSupplier:
    """Supplies the headers that authenticate a request."""

    def token(self) -> str:
        """Return a token that is valid now."""
        raise NotImplementedError

    def write(self, _method: str, _url: str, headers: MutableMapping[str, str]) -> None:
        """Add the headers to those of a request."""
        headers["Authorization"] = f"Bearer {self.token()}"

    def renew(self) -> bool:
        """Forget the token; return whether the next one can differ."""
        return False


class StaticToken(TokenSupplier):
    """The token that the user gave."""

    def __init__(self, token: str, quota_project: str | None = None) -> None:
        self._token = token
        self._quota_project = quota_project

    def token(self) -> str:
        """Return it."""
        return self._token

    def write(self, method: str, url: str, headers: MutableMapping[str, str]) -> None:
        """Add the token, and the project that pays for the request if one is named."""
        super().write(method, url, headers)
        if self._quota_project:
            headers[QUOTA_HEADER] = self._quota_project


class GoogleCredentials(TokenSupplier):
    """Credentials in google-auth's shape, found on first use; they write their own headers.

    Besides the token these name the project that pays for the request (x-goog-user-project), the
    locations that the account is bound to (x-allowed-locations), and the kind of credentials.
    """

    def __init__(self, find: Callable[[], Any]) -> None:
        self._find = find
        self._credentials: Any = None
        self._request: Any = None
        self._lock = threading.Lock()

    def write(self, method: str, url: str, headers: MutableMapping[str, str]) -> None:
        """Have the credentials add their headers; they renew an expired token."""
        import google.auth.transport.requests

        with self._lock:
            if self._credentials is None:
                self._credentials = self._find()
                self._request = google.auth.transport.requests.Request()
            with token_errors():
                self._credentials.before_request(self._request, method, url, headers)

    def renew(self) -> bool:
        """Ask for a new token next time."""
        with self._lock:
            if self._credentials is not None:
                self._credentials.token = None
        return True


@contextlib.contextmanager
def token_errors() -> Iterator[None]:
    """Raise as errors of the API why google-auth gets no token."""
    import google.auth.exceptions

    try:
        yield
    except google.auth.exceptions.TransportError as error:
        raise Unavailable(f"Google's token service cannot be reached: {error}") from error
    except google.auth.exceptions.GoogleAuthError as error:
        raise CredentialsError(f"The credentials are not accepted: {_first_line(error)}") from error


class GcloudCredentials:
    """The login of the gcloud command, in the shape of google-auth's credentials."""

    def __init__(self, gcloud: str, impersonate: str | None = None) -> None:
        self._gcloud = gcloud
        self._impersonate = impersonate
        self._quota_project: str | None = None
        self.token: str | None = None

    def before_request(
        self, _request: object, _method: str, _url: str, headers: MutableMapping[str, str]
    ) -> None:
        """Add token and quota project; gcloud does not say how long a token is valid."""
        if self.token is None:
            self.refresh()
        headers["Authorization"] = f"Bearer {self.token}"
        if self._quota_project:
            headers[QUOTA_HEADER] = self._quota_project

    def refresh(self, _request: object = None) -> None:
        """Run gcloud."""
        words = ["auth", "print-access-token", "--quiet"]
        if self._impersonate:
            words.append(f"--impersonate-service-account={self._impersonate}")
        done = self._ask(words)
        token = done.stdout.strip()
        if done.returncode or not token:
            why = " ".join(done.stderr.split())[:200]
            raise CredentialsError(
                f"There are no credentials: no application default ones, and gcloud says: {why}",
                remedy=LOGIN,
            )
        self.token = token
        self._quota_project = os.environ.get(QUOTA_ENV) or self._configured_quota_project()

    def _configured_quota_project(self) -> str | None:
        """Return the quota project of gcloud's configuration; a service account has its own."""
        if self._impersonate:
            return None
        done = self._ask(["config", "get-value", "billing/quota_project", "--quiet"])
        named = done.stdout.strip()
        # gcloud's words for a way to choose one, and for none: LEGACY, CURRENT_PROJECT, (unset).
        return named if done.returncode == 0 and PROJECT_ID.fullmatch(named) else None

    def _ask(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        try:
            # There is no AnsibleModule here, so no run_command.
            return subprocess.run(  # pylint: disable=ansible-bad-function
                [self._gcloud, *words],
                capture_output=True,
                text=True,
                timeout=GCLOUD_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CredentialsError(f"gcloud gives no token: {error}", remedy=LOGIN) from error


def _supplier(auth: AuthOptions) -> TokenSupplier:
    if auth.access_token:
        return StaticToken(auth.access_token, os.environ.get(QUOTA_ENV))
    return GoogleCredentials(lambda: find_credentials(auth))


def find_credentials(auth: AuthOptions) -> Any:
    """Return credentials: service account file, application default, gcloud's login."""
    if not HAS_GOOGLE_AUTH:
        raise CredentialsError(
            "Google credentials need the Python package google-auth.",
            remedy="Install it, or give an access_token.",
        )
    import google.auth
    import google.auth.exceptions

    if auth.service_account_file:
        return _impersonated(_from_file(auth.service_account_file), auth)
    try:
        credentials, _project = google.auth.default(scopes=SCOPES)
    except google.auth.exceptions.DefaultCredentialsError as error:
        named = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
        if named:
            raise CredentialsError(
                f"GOOGLE_APPLICATION_CREDENTIALS={named} holds no credentials: "
                f"{_first_line(error)}",
                remedy="Correct or unset it, or run: gcloud auth application-default login",
            ) from error
        return _from_gcloud(auth)
    except google.auth.exceptions.GoogleAuthError as error:
        raise CredentialsError(f"The credentials cannot be read: {_first_line(error)}") from error
    return _impersonated(credentials, auth)


def _from_file(path: str) -> Any:
    import google.auth.exceptions
    import google.oauth2.service_account

    try:
        credentials = google.oauth2.service_account.Credentials.from_service_account_file(
            os.path.expanduser(path),  # noqa: PTH111 - modules run on old Pythons, a string is enough
            scopes=SCOPES,
        )
        return credentials.with_quota_project_from_environment()
    except (OSError, ValueError, google.auth.exceptions.GoogleAuthError) as error:
        raise CredentialsError(
            f"The service account file {path} cannot be used: {_first_line(error)}",
            remedy="Run: gcloud iam service-accounts keys create <file> --iam-account=<account>",
        ) from error


def _from_gcloud(auth: AuthOptions) -> GcloudCredentials:
    gcloud = shutil.which("gcloud")
    if gcloud is None:
        raise CredentialsError(
            "There are no credentials: no access_token, no service_account_file, no application "
            "default credentials, and no gcloud command.",
            remedy=LOGIN,
        )
    return GcloudCredentials(gcloud, auth.impersonate_service_account)


def _impersonated(source: Any, auth: AuthOptions) -> Any:
    if not auth.impersonate_service_account:
        return source
    from google.auth import impersonated_credentials

    credentials = impersonated_credentials.Credentials(
        source_credentials=source,
        target_principal=auth.impersonate_service_account,
        target_scopes=SCOPES,
    )
    return credentials.with_quota_project_from_environment()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
