"""Google's other APIs over HTTP, on the TPU API's port, because their paths differ."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .. import errors
from ..compute_errors import too_many
from ..errors import ApiError
from ..model.cloud import Cloud
from ..tpu_api.call import Asked
from . import accounts, logins, policies, services
from . import secretmanager as secret
from .answers import Call

Answer = dict[str, Any]
Handler = Callable[[Cloud, Call], Answer]

TITLES = {
    "compute": "Compute Engine API",
    "serviceusage": "Service Usage API",
    "iam": "Identity and Access Management (IAM) API",
    "cloudresourcemanager": "Cloud Resource Manager API",
    "oslogin": "Cloud OS Login API",
    "secretmanager": "Secret Manager API",
    "storage": "Cloud Storage API",
}


Route = tuple[str, str, re.Pattern[str], str, Handler]


def _route(service: str, method: str, path: str, permission: str, handler: Handler) -> Route:
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/:]+)", path)
    area = "resourcemanager" if service == "cloudresourcemanager" else service
    return service, method, re.compile(pattern), f"{area}.{permission}", handler


_SERVICES = "/v1(?:beta1)?/projects/{project}/services"
_ACCOUNTS = "/v1/projects/{project}/serviceAccounts"
_PROJECT = "/v(?:1|3)/projects/{project}"
_USER = "/v1/users/{id}"
_SECRETS = "/v1/projects/{project}/secrets"
_SECRET = _SECRETS + "/{secret}"
_VERSION = _SECRET + "/versions/{version}"


def _describe(cloud: Cloud, call: Call) -> dict[str, Any]:
    shown = {"projectId": cloud.project, "createTime": "2026-01-01T00:00:00Z"}
    if call["version"] == "v3":
        return {**shown, "name": f"projects/{cloud.number}", "state": "ACTIVE"}
    return {
        **shown,
        "projectNumber": cloud.number,
        "name": cloud.project,
        "lifecycleState": "ACTIVE",
    }


_ROUTES = [
    _route("serviceusage", "GET", _SERVICES, "services.list", services.listed),
    _route("serviceusage", "GET", _SERVICES + ":batchGet", "services.get", services.batch_get),
    _route("serviceusage", "POST", _SERVICES + ":batchEnable", "services.enable",
           services.batch_enable),
    _route("serviceusage", "GET", _SERVICES + "/{id}", "services.get", services.get),
    _route("serviceusage", "GET", _SERVICES + "/{id}/consumerQuotaMetrics/{metric}", "quotas.get",
           services.quota),
    _route("serviceusage", "POST", _SERVICES + "/{id}:enable", "services.enable", services.enable),
    _route("serviceusage", "POST", _SERVICES + "/{id}:disable", "services.disable",
           services.disable),
    _route("serviceusage", "GET", "/v1(?:beta1)?/operations/{id}", "operations.get",
           services.operation),
    _route("iam", "GET", _ACCOUNTS, "serviceAccounts.list", accounts.listed),
    _route("iam", "POST", _ACCOUNTS, "serviceAccounts.create", accounts.create),
    _route("iam", "GET", _ACCOUNTS + "/{id}", "serviceAccounts.get", accounts.get),
    _route("iam", "(?:PATCH|PUT)", _ACCOUNTS + "/{id}", "serviceAccounts.update", accounts.patch),
    _route("iam", "DELETE", _ACCOUNTS + "/{id}", "serviceAccounts.delete", accounts.delete),
    _route("iam", "POST", _ACCOUNTS + "/{id}:(?P<verb>enable|disable)", "serviceAccounts.disable",
           accounts.switch),
    _route("cloudresourcemanager", "GET", "/(?P<version>v1|v3)/projects/{project}",
           "projects.get", _describe),
    _route("cloudresourcemanager", "POST", _PROJECT + ":getIamPolicy", "projects.getIamPolicy",
           policies.get_project),
    _route("cloudresourcemanager", "POST", _PROJECT + ":setIamPolicy", "projects.setIamPolicy",
           policies.set_project),
    _route("oslogin", "GET", _USER + "/loginProfile", "users.getLoginProfile", logins.profile),
    _route("oslogin", "POST", _USER + ":importSshPublicKey", "users.importSshPublicKey",
           logins.import_key),
    _route("secretmanager", "GET", _SECRETS, "secrets.list", secret.listed),
    _route("secretmanager", "POST", _SECRETS, "secrets.create", secret.create),
    _route("secretmanager", "GET", _SECRET, "secrets.get", secret.get),
    _route("secretmanager", "DELETE", _SECRET, "secrets.delete", secret.delete),
    _route("secretmanager", "POST", _SECRET + ":addVersion", "versions.add", secret.add_version),
    _route("secretmanager", "GET", _SECRET + ":getIamPolicy", "secrets.getIamPolicy",
           secret.get_policy),
    _route("secretmanager", "POST", _SECRET + ":setIamPolicy", "secrets.setIamPolicy",
           secret.set_policy),
    _route("secretmanager", "GET", _SECRET + "/versions", "versions.list", secret.versions),
    _route("secretmanager", "GET", _VERSION, "versions.get", secret.get_version),
    _route("secretmanager", "GET", _VERSION + ":access", "versions.access", secret.access),
    _route("secretmanager", "POST", _VERSION + ":(?P<verb>enable|disable|destroy)",
           "versions.update", secret.switch),
]  # fmt: skip


def answer(cloud: Cloud, asked: Asked) -> Answer | None:
    """Return the answer to a request, raise ApiError, or return None for an unknown path."""
    found = False
    for service, verb, pattern, permission, handler in _ROUTES:
        match = pattern.fullmatch(asked.path)
        if not match:
            continue
        found = True
        if not re.fullmatch(verb, asked.method):
            continue
        call = Call(asked.method, match.groupdict(), asked.query, asked.body)
        admit(cloud, service, call["project"], asked.token, asked.unpaid, permission=permission)
        cloud.advance()
        with cloud.lock:
            return handler(cloud, call)
    if found or asked.path.startswith("/compute/"):
        raise errors.NoSuchMethod(asked.path)
    return None


def answer_machine(cloud: Cloud, path: str, email: str, scopes: list[str]) -> dict[str, Any]:
    """Answer a machine's request for a secret, as its service account."""
    match = re.fullmatch(_route("", "", _VERSION + ":access", "", secret.access)[2], path)
    if not match:
        raise errors.NoSuchMethod(path)
    call = Call("GET", match.groupdict(), {}, b"")
    if call["project"] in (cloud.project, cloud.number):
        permission = "secretmanager.versions.access"
        admit(cloud, "secretmanager", call["project"], True, permission=permission)
    with cloud.lock:
        secret.admit(cloud, call, email, scopes)
        return secret.access(cloud, call)


def admit(
    cloud: Cloud, service: str, of: str, token: bool, unpaid: bool = False, **place: Any
) -> None:
    """Raise the reasons to refuse a call, wherever it goes; place: what faults match it by."""
    now, where = cloud.clock.now(), {"service": service, **place}
    if cloud.faults.hit("unauthenticated", now, **where) or (cloud.require_auth and not token):
        raise errors.unauthenticated()
    if unpaid and cloud.faults.hit("quota_project", now, **where):
        raise errors.quota_project_missing(f"{service}.googleapis.com")
    if of not in ("", "-", cloud.project, cloud.number) or cloud.faults.hit(
        "iam_denied", now, **where
    ):
        raise errors.iam_denied(place["permission"], f"projects/{of or cloud.project}")
    if not cloud.around.enabled(f"{service}.googleapis.com"):
        raise disabled(cloud, f"{service}.googleapis.com", TITLES[service])
    limit = cloud.faults.hit("rate_limit", now, lambda fault: fault.too_many(now), **where)
    if limit:
        raise too_many(f"{service}.googleapis.com", limit.options.get("retry_after"))
    for kind, refusal in (("unavailable", errors.unavailable), ("internal", errors.internal)):
        if cloud.faults.hit(kind, now, **where):
            raise refusal()


def disabled(cloud: Cloud, service: str, title: str) -> ApiError:
    """The service is not enabled in the project."""
    url = (
        f"https://console.developers.google.com/apis/api/{service}/overview?project={cloud.number}"
    )
    return ApiError(
        "PERMISSION_DENIED",
        f"{title} has not been used in project {cloud.number} before or it is disabled. Enable it "
        f"by visiting {url} then retry. If you enabled this API recently, wait a few minutes for "
        "the action to propagate to our systems and retry.",
        [
            errors.error_info(
                "SERVICE_DISABLED", {"service": service, "consumer": f"projects/{cloud.number}"}
            )
        ],
    )
