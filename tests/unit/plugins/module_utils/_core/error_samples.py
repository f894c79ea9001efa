"""What each row of the table of errors looks like: answers of the API, verbatim.

The tests compare the table's signs with them, and docs/errors.md shows them. At run time nothing
needs them, so they do not travel to every machine with the modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.error_row import (
    CANCELLED,
    DEADLINE_EXCEEDED,
    FAILED_PRECONDITION,
    INTERNAL,
    INVALID_ARGUMENT,
    NOT_FOUND,
    PERMISSION_DENIED,
    RESOURCE_EXHAUSTED,
    UNAVAILABLE,
)


@dataclass(frozen=True)
class Sample:
    """One form in which an error appears.

    With `http` it is an answer to a request (with `reason` one of Compute Engine, a page of HTML
    when neither that nor `status` is there), with `code`
    what an operation or a queued resource failed with, with `queued` the state of a queued
    resource; with nothing of these it is our own message.
    """

    text: str
    http: int | None = None
    status: str = ""
    reason: str = ""
    code: int | None = None
    details: tuple[Mapping[str, Any], ...] = ()
    queued: Mapping[str, Any] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, Any] | str:
        """Return the body of the HTTP answer."""
        if self.reason:
            one = {"message": self.text, "domain": "global", "reason": self.reason}
            return {"error": {"code": self.http, "message": self.text, "errors": [one]}}
        if not self.status:
            return self.text
        error = {"code": self.http, "message": self.text, "status": self.status}
        return {"error": {**error, "details": list(self.details)} if self.details else error}

    @property
    def rpc_status(self) -> dict[str, Any]:
        """Return the google.rpc.Status of the operation."""
        return {"code": self.code, "message": self.text}


TYPE_URL = "type.googleapis.com/google.rpc."


def error_info(reason: str, **metadata: str) -> dict[str, Any]:
    """Return the detail that names a reason."""
    return {
        "@type": TYPE_URL + "ErrorInfo",
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": {"service": "tpu.googleapis.com", **metadata},
    }


def quota_failure(*descriptions: str) -> dict[str, Any]:
    """Return the detail that names the quotas that would be exceeded."""
    return {
        "@type": TYPE_URL + "QuotaFailure",
        "violations": [
            {"subject": "project:1037372895180", "description": text} for text in descriptions
        ],
    }


# By the key of the row; the most common form is the first.
SAMPLES: dict[str, tuple[Sample, ...]] = {
    "stock_out": (
        Sample(
            'There is no more capacity in the zone "us-central1-c"; you can try in another '
            "zone where Cloud TPU Nodes are offered (see "
            "https://cloud.google.com/tpu/docs/regions) [EID: 0x9f48947a7d57c8d]",
            code=RESOURCE_EXHAUSTED,
        ),
        Sample(
            'There is no more capacity in the zone "us-central1-c"; you can queue your request '
            "to get capacity when available (see https://cloud.google.com/tpu/docs/"
            "queued-resources#request_a_preemptible_queued_resource) or try in another zone "
            "where Cloud TPU Nodes are offered (see https://cloud.google.com/tpu/docs/regions) "
            "[EID: 0x9f48947a7d57c8d]",
            code=RESOURCE_EXHAUSTED,
        ),
        Sample(
            "The zone 'projects/my-project/zones/us-central1-c' does not have enough resources "
            "available to fulfill the request.  Try a different zone, or try again later.",
            code=RESOURCE_EXHAUSTED,
        ),
        Sample(
            "The zone 'projects/my-project/zones/us-central1-c' does not have enough resources "
            "available to fulfill the request, '(resource type:compute)'.",
            code=RESOURCE_EXHAUSTED,
        ),
    ),
    "reserved_capacity": (
        Sample(
            "Insufficient reserved capacity. Contact customer support to increase your "
            "reservation. [EID: 0x1f2e3d4c5b6a798]",
            code=FAILED_PRECONDITION,
        ),
        Sample(
            "Insufficient reserved capacity. Contact customer support to increase your "
            "reservation. [EID: 0x1f2e3d4c5b6a798]",
            code=RESOURCE_EXHAUSTED,
        ),
        Sample(
            "Specified reservation 'ours' does not have available resources for the request.",
            code=FAILED_PRECONDITION,
        ),
        Sample("No available resources in specified reservations", code=FAILED_PRECONDITION),
    ),
    "reservation_missing": (
        Sample("Specified reservations [ours] do not exist", code=INVALID_ARGUMENT),
        Sample("Reservation not found", code=NOT_FOUND),
        Sample("Reservation not found", http=404, status="NOT_FOUND"),
    ),
    "quota_zero": (
        Sample(
            "Quota limit 'TPUV6EPreemptiblePerProjectPerZoneForTPUAPI' has been exceeded. "
            "Limit: 0 in zone us-east5-a.",
            http=429,
            status="RESOURCE_EXHAUSTED",
            details=(
                quota_failure(
                    "Quota 'TPUV6EPreemptiblePerProjectPerZoneForTPUAPI' exhausted. Limit 0 in "
                    "zone us-east5-a"
                ),
            ),
        ),
        Sample(
            "Quota limit 'TPUV6EPerProjectPerRegionForTPUAPI' has been exceeded. Limit: 0 in "
            "region us-east5.",
            code=RESOURCE_EXHAUSTED,
        ),
        Sample(
            "Quota 'TPUS_PER_TPU_FAMILY' exceeded.  Limit: 0.0 in region us-central1.",
            code=RESOURCE_EXHAUSTED,
        ),
    ),
    "quota": (
        Sample(
            "Quota limit 'TPUV5sLitepodServingPerProjectPerZoneForTPUAPI' has been exceeded. "
            "Limit: 4 in zone us-east5-a.",
            http=429,
            status="RESOURCE_EXHAUSTED",
            details=(
                quota_failure(
                    "Quota 'TPUV5sLitepodServingPerProjectPerZoneForTPUAPI' exhausted. Limit 4 "
                    "in zone us-east5-a"
                ),
            ),
        ),
        Sample(
            "Quota limit 'TPUV4sPodPerProjectPerRegionForTPUAPI' has been exceeded. Limit: 64 "
            "in region us-central2.",
            http=429,
            status="RESOURCE_EXHAUSTED",
            details=(
                quota_failure(
                    "Quota 'TPUV4sPodPerProjectPerRegionForTPUAPI' exhausted. Limit 64 in "
                    "region us-central2",
                    "Quota 'TPUV4sPodPerProjectPerZoneForTPUAPI' exhausted. Limit 32 in zone "
                    "us-central2-b",
                ),
            ),
        ),
        Sample(
            "Quota limit 'TPUV4sPodPerProjectPerZoneForTPUAPI' has been exceeded. Limit: 32 in "
            "zone us-central2-b.",
            code=RESOURCE_EXHAUSTED,
        ),
        Sample(
            "Quota 'TPUS_PER_TPU_FAMILY' exceeded.  Limit: 8.0 in region us-central1.",
            code=RESOURCE_EXHAUSTED,
        ),
    ),
    "rate_limit": (
        Sample(
            "Quota exceeded for quota metric 'tpu.googleapis.com/qps/create' and limit "
            "'Maximum number of CreateNode requests per minute' of service "
            "'tpu.googleapis.com' for consumer 'project_number:1037372895180'.",
            http=429,
            status="RESOURCE_EXHAUSTED",
            details=(
                error_info(
                    "RATE_LIMIT_EXCEEDED",
                    consumer="projects/1037372895180",
                    quota_metric="tpu.googleapis.com/qps/create",
                    quota_limit="Maximum number of CreateNode requests per minute",
                ),
            ),
        ),
        Sample(
            "Too many operations are currently being executed, try again later.",
            http=429,
            status="RESOURCE_EXHAUSTED",
        ),
    ),
    "quota_project": (
        Sample(
            "Your application is authenticating by using local Application Default "
            "Credentials. The serviceusage.googleapis.com API requires a quota project, which "
            "is not set by default. To learn how to set your quota project, see "
            "https://cloud.google.com/docs/authentication/adc-troubleshooting/user-creds .",
            http=403,
            status="PERMISSION_DENIED",
            details=(
                error_info(
                    "SERVICE_DISABLED",
                    consumer="projects/764086051850",
                    service="serviceusage.googleapis.com",
                ),
            ),
        ),
        Sample(
            "Caller does not have required permission to use project my-project. Grant the "
            "caller the roles/serviceusage.serviceUsageConsumer role, or a custom role with "
            "the serviceusage.services.use permission, by visiting https://"
            "console.developers.google.com/iam-admin/iam/project?project=my-project and then "
            "retry. Propagation of the new permission may take a few minutes.",
            http=403,
            status="PERMISSION_DENIED",
            details=(error_info("USER_PROJECT_DENIED", consumer="projects/my-project"),),
        ),
    ),
    "api_disabled": (
        Sample(
            "Cloud TPU API has not been used in project 1032299714650 before or it is "
            "disabled. Enable it by visiting https://console.developers.google.com/apis/api/"
            "tpu.googleapis.com/overview?project=1032299714650 then retry. If you enabled this "
            "API recently, wait a few minutes for the action to propagate to our systems and "
            "retry.",
            http=403,
            status="PERMISSION_DENIED",
            details=(error_info("SERVICE_DISABLED", consumer="projects/1032299714650"),),
        ),
    ),
    "billing": (
        Sample(
            "This API method requires billing to be enabled. Please enable billing on project "
            "#1032299714650 by visiting https://console.developers.google.com/billing/enable?"
            "project=1032299714650 then retry.",
            http=403,
            status="PERMISSION_DENIED",
            details=(error_info("BILLING_DISABLED", consumer="projects/1032299714650"),),
        ),
    ),
    "queue": (
        Sample(
            "User does not have permission to submit requests for accelerator type "
            '"v5litepod-4" in location us-central1-a',
            http=403,
            status="PERMISSION_DENIED",
        ),
        Sample(
            "User does not have permission to submit requests into this queue for accelerator "
            "type v5p-8 in location us-east1-d.",
            code=PERMISSION_DENIED,
        ),
    ),
    "location": (
        Sample(
            "Permission denied on 'locations/us-central2-b' (or it may not exist).",
            http=403,
            status="PERMISSION_DENIED",
            details=(
                error_info(
                    "LOCATION_POLICY_VIOLATED",
                    consumer="projects/1032299714650",
                    location="us-central2-b",
                ),
            ),
        ),
        Sample(
            "Location us-east1-d is not found or access is unauthorized.",
            http=403,
            status="PERMISSION_DENIED",
        ),
    ),
    "project": (
        Sample(
            "Permission denied on resource project wrong-id.",
            http=403,
            status="PERMISSION_DENIED",
            details=(error_info("CONSUMER_INVALID", consumer="projects/wrong-id"),),
        ),
    ),
    "iam": (
        Sample(
            "Permission 'tpu.nodes.list' denied on 'projects/my-project/locations/us-central2-b'",
            http=403,
            status="PERMISSION_DENIED",
            details=(error_info("IAM_PERMISSION_DENIED", permission="tpu.nodes.list"),),
        ),
        Sample(
            "Permission 'tpu.nodes.update' denied on 'projects/my-project/locations/"
            "us-central2-b/nodes/big'",
            http=403,
            status="PERMISSION_DENIED",
        ),
    ),
    "permission": (
        Sample("The caller does not have permission", http=403, status="PERMISSION_DENIED"),
    ),
    "credentials": (
        Sample(
            "Request had invalid authentication credentials. Expected OAuth 2 access token, "
            "login cookie or other valid authentication credential. See https://developers."
            "google.com/identity/sign-in/web/devconsole-project.",
            http=401,
            status="UNAUTHENTICATED",
            details=(error_info("ACCESS_TOKEN_EXPIRED"),),
        ),
        Sample(
            "Request is missing required authentication credential. Expected OAuth 2 access "
            "token, login cookie or other valid authentication credential. See https://"
            "developers.google.com/identity/sign-in/web/devconsole-project.",
            http=401,
            status="UNAUTHENTICATED",
            details=(error_info("CREDENTIALS_MISSING"),),
        ),
        Sample(
            "There are no credentials: no access_token, no service_account_file, no "
            "application default credentials, and no gcloud command."
        ),
    ),
    "not_found": (
        Sample(
            "Resource 'projects/my-project/locations/us-central2-b/nodes/big' was not found",
            http=404,
            status="NOT_FOUND",
        ),
        Sample(
            "Resource 'projects/my-project/locations/us-central2-b/nodes/big' was not found",
            code=NOT_FOUND,
        ),
    ),
    "wrong_endpoint": (
        Sample(
            "The requested URL /v2/projects/my-project was not found on this server.",
            http=404,
            status="NOT_FOUND",
        ),
        Sample(
            "<html><title>Error 404 (Not Found)!!1</title><p>The requested URL "
            "<code>/tpu</code> was not found on this server.</html>",
            http=404,
        ),
    ),
    "exists": (
        Sample(
            "Resource 'projects/my-project/locations/us-central2-b/nodes/big' already exists",
            http=409,
            status="ALREADY_EXISTS",
        ),
    ),
    "name_taken": (
        Sample(
            "regions/us-central1/instanceTemplates already has big, and it was not made by this "
            "collection."
        ),
    ),
    "busy": (Sample("unable to queue the operation", http=409, status="ABORTED"),),
    "type_not_in_zone": (
        Sample(
            "Cloud TPU received a bad request. The requested accelerator configuration for "
            'accelerator type, "v5litepod-8", could not be found in the zonal accelerator '
            'configurations for "us-central1-b".; the accelerator v5litepod-8 was not found in '
            "zone us-central1-b [EID: 0x5be9ca996f9773a4]",
            http=400,
            status="INVALID_ARGUMENT",
        ),
    ),
    "machine_type_not_in_zone": (
        Sample(
            "Invalid value for field 'resource.machineType': 'zones/us-west1-a/machineTypes/"
            "ct6e-standard-4t'. Machine type with name 'ct6e-standard-4t' does not exist in zone "
            "'us-west1-a'.",
            http=400,
            reason="invalid",
        ),
        Sample(
            "Machine type with name 'ct6e-standard-4t' does not exist in zone 'us-west1-a'.",
            code=INVALID_ARGUMENT,
        ),
    ),
    "user_agent": (
        Sample(
            "This user agent is not allowed to use the machine type [ct5lp-hightpu-1t].",
            http=400,
            reason="invalid",
        ),
    ),
    "organization_policy": (
        Sample(
            "Constraint constraints/compute.vmExternalIpAccess violated for project my-project.",
            http=412,
            reason="conditionNotMet",
        ),
        Sample(
            "Constraint constraints/compute.vmExternalIpAccess violated for project my-project.",
            code=FAILED_PRECONDITION,
        ),
    ),
    "outdated": (
        Sample(
            "Supplied fingerprint does not match current metadata fingerprint.",
            http=412,
            reason="conditionNotMet",
        ),
    ),
    "zone_not_supported": (
        Sample(
            'Cloud TPU received a bad request. The requested zone "asia-northeast1-a" is not '
            "supported. [EID: 0x4b1d6a1a0c4b7e0f]",
            http=400,
            status="INVALID_ARGUMENT",
        ),
    ),
    "runtime_not_in_zone": (
        Sample(
            'Cloud TPU received a bad request. The requested runtime version "tpu-vm-tf-9.9.9" '
            'was not found in zone "us-central2-b". [EID: 0x5be9ca996f9773a4]',
            http=400,
            status="INVALID_ARGUMENT",
        ),
    ),
    "flex_start": (
        Sample(
            "FLEX_START provisioning model is not supported for accelerator type "
            '"v6e-1" in location "asia-east1-c"',
            code=INVALID_ARGUMENT,
        ),
    ),
    "lost_state": (
        Sample(
            "Cloud TPU received a bad request. update is not supported while in state "
            "PREEMPTED [EID: 0x4b1d6a1a0c4b7e0f]",
            code=INVALID_ARGUMENT,
        ),
        Sample(
            "Cloud TPU received a bad request. Preemptible TPUs cannot be restarted "
            "[EID: 0x4b1d6a1a0c4b7e0f]",
            http=400,
            status="INVALID_ARGUMENT",
        ),
        Sample(
            "Cloud TPU received a bad request. Spot VM TPUs cannot be restarted, and must be "
            "recreated again [EID: 0x4b1d6a1a0c4b7e0f]",
            http=400,
            status="INVALID_ARGUMENT",
        ),
    ),
    "wrong_state": (
        Sample(
            "Cloud TPU received a bad request. update is not supported while in state CREATING "
            "[EID: 0x4b1d6a1a0c4b7e0f]",
            http=400,
            status="INVALID_ARGUMENT",
        ),
    ),
    "single_host_only": (
        Sample(
            "Cloud TPU received a bad request. This operation is only available with single "
            "TPU nodes. [EID: 0x4b1d6a1a0c4b7e0f]",
            http=400,
            status="INVALID_ARGUMENT",
        ),
    ),
    "node_architecture": (
        Sample(
            "Your request to provision TPU Node has been denied. Please migrate to TPU VM "
            "Architecture or contact Cloud TPU team to gain TPU Node access.",
            http=400,
            status="FAILED_PRECONDITION",
        ),
    ),
    "invalid_name": (Sample("Malformed name: 'My_Slice'", http=400, status="INVALID_ARGUMENT"),),
    "request_id": (
        Sample(
            "The request was invalid: attempted to reuse 'request_id' for incompatible requests",
            http=400,
            status="INVALID_ARGUMENT",
        ),
    ),
    "bad_request": (
        Sample(
            "Invalid JSON payload received. Unknown name \"zone\" at 'node': Cannot find field.",
            http=400,
            status="INVALID_ARGUMENT",
            details=(
                {
                    "@type": TYPE_URL + "BadRequest",
                    "fieldViolations": [{"field": "node", "description": "Cannot find field."}],
                },
            ),
        ),
        Sample("The request was invalid: invalid update mask", http=400, status="INVALID_ARGUMENT"),
        Sample("The request was invalid: invalid page token", http=400, status="INVALID_ARGUMENT"),
        Sample("Invalid argument: 'page_size'", http=400, status="INVALID_ARGUMENT"),
        Sample(
            "The request was invalid: Must be a valid UUID",
            http=400,
            status="INVALID_ARGUMENT",
        ),
    ),
    "unimplemented": (
        Sample("Operation is not implemented, or supported.", http=501, status="UNIMPLEMENTED"),
    ),
    "service_unavailable": (
        Sample("The service is currently unavailable.", http=503, status="UNAVAILABLE"),
        Sample("The service is currently unavailable.", code=UNAVAILABLE),
    ),
    "internal": (
        Sample(
            "an internal error [EID: 0x77a1b2c3d4e5f607] has occurred",
            http=500,
            status="INTERNAL",
        ),
        Sample("Internal error. Please try again", http=503, status="UNAVAILABLE"),
    ),
    "bad_gateway": (
        Sample(
            "<!DOCTYPE html><html lang=en><title>Error 502 (Server Error)!!1</title><p><b>502."
            "</b> <ins>That's an error.</ins><p>The server encountered a temporary error and "
            "could not complete your request.<p>Please try again in 30 seconds.</html>",
            http=502,
        ),
        Sample("<html><h1>504 Gateway Timeout</h1></html>", http=504),
    ),
    "unavailable": (
        Sample("https://tpu.googleapis.com/ does not answer: Connection refused"),
        Sample("The answer to v2/projects/my-project/locations/-/nodes is not JSON."),
    ),
    "internal_error": (
        Sample("an internal error [EID: 0x77a1b2c3d4e5f607] has occurred", code=INTERNAL),
        Sample("Internal error. Please try again or contact Google Support.", code=INTERNAL),
        Sample(
            "an internal error has occurred",
            queued={
                "state": "FAILED",
                "failedData": {
                    "error": {"code": INTERNAL, "message": "an internal error has occurred"}
                },
            },
        ),
    ),
    "cancelled": (Sample("The operation was cancelled.", code=CANCELLED),),
    "operation_failed": (Sample("The operation failed, code 2.", code=2),),
    "queued_expired": (
        Sample(
            "The resources could not be provisioned before the valid until time of the request.",
            queued={
                "state": "FAILED",
                "failedData": {
                    "error": {
                        "code": DEADLINE_EXCEEDED,
                        "message": "The resources could not be provisioned before the valid "
                        "until time of the request.",
                    }
                },
            },
        ),
    ),
    "queued_failed": (
        Sample(
            "The queued resource big in us-central2-b is FAILED.",
            queued={"state": "FAILED", "failedData": {}},
        ),
    ),
    "queued_suspended": (
        Sample(
            "The queued resource big in us-central2-b is SUSPENDED by the service.",
            queued={"state": "SUSPENDED", "stateInitiator": "SERVICE", "suspendedData": {}},
        ),
    ),
    "queued_suspended_by_user": (
        Sample(
            "The queued resource big in us-central2-b is SUSPENDED by a user.",
            queued={"state": "SUSPENDED", "stateInitiator": "USER", "suspendedData": {}},
        ),
    ),
    "queued_has_nodes": (
        Sample(
            'Cloud TPU received a bad request. The queued resource "big" in state ACTIVE has '
            "nodes: delete them first, or set force. [EID: 0x4b1d6a1a0c4b7e0f]",
            http=400,
            status="FAILED_PRECONDITION",
        ),
    ),
    "node_lost": (Sample("The node big in us-central2-b is PREEMPTED."),),
    "refused": (
        Sample("The node big in us-central2-b has no label tpu-fleet, so it is left alone."),
        Sample("Nothing was changed, because 1 of 2 slices cannot be created:"),
        Sample(
            "alice_at_laptop is working on this fleet, until 2026-11-21 12:20:00 UTC at the latest."
        ),
    ),
    "timeout": (
        Sample("Waited 1800 s for node big in us-central2-b to be READY; last seen: CREATING."),
    ),
    "error": (Sample("There is no project."),),
}
