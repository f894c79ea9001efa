# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of errors: the signs of each, its meaning, the reaction and the remedy.

`errors.py` finds the row of an answer by its signs and takes the remedy from it; the planner
takes its reaction from it; docs/errors.md is written from it. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .error_row import (
    ABORTED,
    ALREADY_EXISTS,
    CANCELLED,
    DEADLINE_EXCEEDED,
    FAILED_PRECONDITION,
    INTERNAL,
    INVALID_ARGUMENT,
    NOT_FOUND,
    PERMISSION_DENIED,
    RESOURCE_EXHAUSTED,
    UNAUTHENTICATED,
    UNAVAILABLE,
    UNIMPLEMENTED,
    Evidence,
    Reaction,
    Row,
    Sample,
    Sign,
)

__all__ = ["ROWS", "Reaction", "Row", "row_by_signs", "row_for", "row_named"]

REFUSED_REQUEST = (INVALID_ARGUMENT, FAILED_PRECONDITION)
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


_STILL_COUNTS = "Until it is deleted it books quota."
_REQUEST_AGAIN = "Delete it and request it again (recreate: true); until then it uses up quota."

ROWS: tuple[Row, ...] = (
    # Capacity -------------------------------------------------------------------------------------
    Row(
        key="stock_out",
        kind="stock_out",
        short="no capacity",
        samples=(
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
        ),
        means="All hardware of this type in this zone is in use by others. It says nothing about "
        "your quota or your grant, and it can change at any moment.",
        does="Requests the slice's next zone or type immediately, and this one again later, with "
        "pauses that grow from half a minute to ten. A queued request stays in Google's queue.",
        remedy="Try again later, in another zone, or queue the request.",
        reaction=Reaction.NEXT_PLACE,
        signs=(
            Sign((RESOURCE_EXHAUSTED,), says="^There is no more capacity"),
            Sign((RESOURCE_EXHAUSTED,), answer=False),
        ),
    ),
    Row(
        key="reserved_capacity",
        kind="stock_out",
        short="no reserved capacity",
        samples=(
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
        ),
        means="The reservation is full, or the type is only available with a reservation in this "
        "zone (v5p on demand, for one) and the request names none.",
        does="As for no capacity: the next zone or type immediately, this one again later.",
        remedy="This type is only given against a reservation here: use one, or another zone or "
        "tier.",
        reaction=Reaction.NEXT_PLACE,
        signs=(
            Sign((RESOURCE_EXHAUSTED, FAILED_PRECONDITION), says="^Insufficient reserved capacity"),
        ),
    ),
    Row(
        key="reservation_missing",
        kind="not_found",
        short="reservation not found",
        samples=(
            Sample("Reservation not found", code=NOT_FOUND),
            Sample("Reservation not found", http=404, status="NOT_FOUND"),
        ),
        means="The reservation does not exist, or the type is only available with a reservation in "
        "this zone (v5e on demand, for one) and the request names none.",
        does="Gives this zone up for the slice and continues with the next one.",
        remedy="Check the reservation's name; without a reservation use another zone or tier.",
        reaction=Reaction.NEVER_HERE,
        signs=(Sign((NOT_FOUND,), says="^Reservation not found"),),
    ),
    # Quota and rate -------------------------------------------------------------------------------
    Row(
        key="quota_zero",
        kind="quota",
        flavour="zero",
        short="no quota here",
        samples=(
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
        ),
        means="The project has no quota for this type and tier in this zone or region. It is "
        "not used up: there never was any.",
        does="Gives this zone and type up for the slice and continues with the next one; says so "
        "when none is left.",
        remedy="The project has no quota for this type here, so it will never succeed: use the "
        "zones, types and tiers of the grant, or ask for quota.",
        reaction=Reaction.NEVER_HERE,
        signs=(
            Sign((RESOURCE_EXHAUSTED,), detail="QuotaFailure", limit=0),
            Sign((RESOURCE_EXHAUSTED,), says="^Quota limit '", limit=0),
        ),
    ),
    Row(
        key="quota",
        kind="quota",
        short="quota used up",
        samples=(
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
        ),
        means="The project already holds as much of this as it may; the limit counts TensorCores "
        "(chips for v5e and v6e). Repeating does not help while things stay as they are. Preempted "
        "nodes and suspended or failed queued resources count until they are deleted.",
        does="Deletes its own dead nodes and queued resources, requests the slice's next zone "
        "or type immediately, and this one again later.",
        remedy="Delete what the project does not need (preempted nodes and ended queued resources "
        "count too), or ask for more quota.",
        reaction=Reaction.HOLD,
        signs=(
            Sign((RESOURCE_EXHAUSTED,), detail="QuotaFailure"),
            Sign((RESOURCE_EXHAUSTED,), says="^Quota '[A-Z_]+' exceeded"),
            Sign((RESOURCE_EXHAUSTED,), says="^Quota limit '"),
        ),
    ),
    Row(
        key="rate_limit",
        kind="rate_limit",
        short="too many requests",
        samples=(
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
        means="The project sent more requests in a minute than allowed. It looks like a quota, but "
        "ends after a minute.",
        does="Waits as long as the answer says (Retry-After), otherwise with growing pauses, and "
        "tries again.",
        remedy="Wait a minute and try again.",
        reaction=Reaction.WAIT,
        signs=(
            Sign((RESOURCE_EXHAUSTED,), reasons=("RATE_LIMIT_EXCEEDED",)),
            Sign((RESOURCE_EXHAUSTED,), says="^(Quota exceeded for quota metric|Too many )"),
            Sign((RESOURCE_EXHAUSTED,), answer=True),
        ),
    ),
    # Permission: six flavours and the rest --------------------------------------------------------
    Row(
        key="quota_project",
        kind="permission",
        flavour="quota_project",
        short="quota project missing or closed",
        samples=(
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
        means="A person's credentials have no project that pays for their requests, or the person "
        "may not use that project. It does not depend on whether the API is enabled.",
        does="Stops: nothing that needs this API can work.",
        remedy="Run: gcloud auth application-default set-quota-project {project} (or set "
        "GOOGLE_CLOUD_QUOTA_PROJECT={project}); the account needs the role "
        "roles/serviceusage.serviceUsageConsumer in that project.",
        reaction=Reaction.STOP,
        signs=(
            Sign((PERMISSION_DENIED,), says=" API requires a quota project"),
            Sign((PERMISSION_DENIED,), reasons=("USER_PROJECT_DENIED",)),
        ),
    ),
    Row(
        key="api_disabled",
        kind="permission",
        flavour="api_disabled",
        short="API switched off",
        samples=(
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
        means="The Cloud TPU API is not enabled in this project, or was enabled only a minute ago.",
        does="Stops: nothing in this project can work.",
        remedy="Run: gcloud services enable {service} --project={project}",
        reaction=Reaction.STOP,
        signs=(
            Sign((PERMISSION_DENIED,), reasons=("SERVICE_DISABLED",)),
            Sign((PERMISSION_DENIED,), says=" API has not been used in project "),
        ),
    ),
    Row(
        key="billing",
        kind="permission",
        flavour="billing",
        short="billing switched off",
        samples=(
            Sample(
                "This API method requires billing to be enabled. Please enable billing on project "
                "#1032299714650 by visiting https://console.developers.google.com/billing/enable?"
                "project=1032299714650 then retry.",
                http=403,
                status="PERMISSION_DENIED",
                details=(error_info("BILLING_DISABLED", consumer="projects/1032299714650"),),
            ),
        ),
        means="The project has no billing account. It needs one even for a free grant.",
        does="Stops: nothing in this project can work.",
        remedy="Run: gcloud billing projects link {project} --billing-account=<account> (gcloud "
        "billing accounts list shows the accounts).",
        reaction=Reaction.STOP,
        signs=(
            Sign((PERMISSION_DENIED,), reasons=("BILLING_DISABLED",)),
            Sign((PERMISSION_DENIED,), says="^This API method requires billing"),
            Sign((FAILED_PRECONDITION,), reasons=("UREQ_PROJECT_BILLING_NOT_FOUND",)),
        ),
    ),
    Row(
        key="queue",
        kind="permission",
        flavour="queue",
        short="type not offered to the project",
        samples=(
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
        means="This type is not offered to this project in this zone. Despite its wording it "
        "has nothing to do with your roles.",
        does="Gives this zone and type up for the slice and continues with the next one.",
        remedy="This type is not offered to the project in this zone, repeating never helps: use "
        "the zones, types and tiers of the grant.",
        reaction=Reaction.NEVER_HERE,
        signs=(
            Sign((PERMISSION_DENIED,), says="^User does not have permission to submit requests"),
        ),
    ),
    Row(
        key="location",
        kind="permission",
        flavour="location",
        short="zone closed or unknown",
        samples=(
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
        means="There is no such zone, or it is closed to the project: us-central2 (v4), for one, "
        "is only open to projects on a list.",
        does="Gives this zone up for the slice and continues with the next one.",
        remedy="Check the zone's name; a zone may also be closed to the project. Run: gcloud "
        "compute tpus locations list --project={project}",
        reaction=Reaction.NEVER_HERE,
        signs=(
            Sign((PERMISSION_DENIED,), reasons=("LOCATION_POLICY_VIOLATED",)),
            Sign((PERMISSION_DENIED,), says="^(Permission denied on 'locations/|Location )"),
        ),
    ),
    Row(
        key="project",
        kind="permission",
        flavour="project",
        short="project unknown",
        samples=(
            Sample(
                "Permission denied on resource project wrong-id.",
                http=403,
                status="PERMISSION_DENIED",
                details=(error_info("CONSUMER_INVALID", consumer="projects/wrong-id"),),
            ),
        ),
        means="There is no project with this id, or the account may not see it.",
        does="Stops: nothing in this project can work.",
        remedy="Check the project's id (option project, GOOGLE_CLOUD_PROJECT) and the account. "
        "Run: gcloud projects list",
        reaction=Reaction.STOP,
        signs=(
            Sign(
                (PERMISSION_DENIED,),
                reasons=("CONSUMER_INVALID", "PROJECT_INVALID"),
            ),
            Sign(
                (PERMISSION_DENIED,),
                says="^(Permission denied on resource project|Project '|Project not found)",
            ),
        ),
    ),
    Row(
        key="iam",
        kind="permission",
        flavour="iam",
        short="role missing",
        samples=(
            Sample(
                "Permission 'tpu.nodes.list' denied on 'projects/my-project/locations/"
                "us-central2-b'",
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
        # A project that does not exist looks just the same to those who may not see it.
        means="The account lacks a role in the project; or the project's id is wrong, which looks "
        "the same.",
        does="Stops: nothing in this project can work.",
        remedy="If {project} is the right project, run: gcloud projects add-iam-policy-binding "
        "{project} --role={role} --member=user:<account>",
        reaction=Reaction.STOP,
        signs=(
            Sign((PERMISSION_DENIED,), reasons=("IAM_PERMISSION_DENIED",)),
            Sign((PERMISSION_DENIED,), says=r"Permission '[\w.]+' denied|Required '[\w.]+' perm"),
        ),
    ),
    Row(
        key="permission",
        kind="permission",
        flavour="other",
        short="access denied",
        samples=(
            Sample("The caller does not have permission", http=403, status="PERMISSION_DENIED"),
        ),
        means="The account may not do this; the answer does not say why.",
        does="Stops.",
        remedy="Check which account is used and which roles it has in project {project}.",
        reaction=Reaction.STOP,
        signs=(Sign((PERMISSION_DENIED,)),),
    ),
    Row(
        key="credentials",
        kind="credentials",
        short="credentials refused",
        samples=(
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
        means="There is no login here, or it has expired. A token that expires during a long "
        "wait is renewed automatically; this error remains when that fails.",
        does="Requests a new token once; then stops.",
        remedy="Run: gcloud auth application-default login",
        reaction=Reaction.STOP,
        signs=(Sign((UNAUTHENTICATED,)),),
    ),
    # What is there, and what is not ---------------------------------------------------------------
    Row(
        key="not_found",
        kind="not_found",
        short="not there",
        samples=(
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
        means="There is no such node, queued resource or operation. A node may also be unknown "
        "for a minute after its creation was accepted; the nodes of a suspended queued resource "
        "are deleted.",
        does="Reads everything again and makes a new plan.",
        remedy="Check the name, the zone and the project. Run: gcloud compute tpus tpu-vm list "
        "--zone=- --project={project}",
        reaction=Reaction.LOOK,
        signs=(Sign((NOT_FOUND,)),),
    ),
    Row(
        key="wrong_endpoint",
        kind="not_found",
        short="not the API",
        samples=(
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
        means="The server that answers has no such method: it is not the Cloud TPU API.",
        does="Stops.",
        remedy="Correct api_endpoint, or CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU in the environment.",
        reaction=Reaction.STOP,
        signs=(Sign((NOT_FOUND,), says="requested URL .* was not found on this server"),),
    ),
    Row(
        key="exists",
        kind="exists",
        short="name taken",
        samples=(
            Sample(
                "Resource 'projects/my-project/locations/us-central2-b/nodes/big' already exists",
                http=409,
                status="ALREADY_EXISTS",
            ),
        ),
        means="There is a node or queued resource with this name in the zone.",
        does="Checks the owner. Its own creation, whose answer was lost, counts as done; what is "
        "somebody else's is left alone and reported.",
        remedy="Choose another name, or delete what has this one.",
        reaction=Reaction.LOOK,
        signs=(Sign((ALREADY_EXISTS,)),),
    ),
    Row(
        key="busy",
        kind="busy",
        short="busy",
        samples=(Sample("unable to queue the operation", http=409, status="ABORTED"),),
        means="Another operation on the same node or queued resource has not ended yet.",
        does="Waits and tries again. A module for a single node gives up after three minutes.",
        remedy="Wait until the running operation has ended and try again.",
        reaction=Reaction.WAIT,
        signs=(Sign((ABORTED,)),),
    ),
    # The request ----------------------------------------------------------------------------------
    Row(
        key="type_not_in_zone",
        kind="bad_request",
        short="type not in this zone",
        samples=(
            Sample(
                "Cloud TPU received a bad request. The requested accelerator configuration for "
                'accelerator type, "v5litepod-8", could not be found in the zonal accelerator '
                'configurations for "us-central1-b".; the accelerator v5litepod-8 was not found in '
                "zone us-central1-b [EID: 0x5be9ca996f9773a4]",
                http=400,
                status="INVALID_ARGUMENT",
            ),
        ),
        means="The zone does not have this accelerator type, or there is no such type.",
        does="Gives this zone and type up for the slice and continues with the next one.",
        remedy="Check the accelerator type and the zone. Run: gcloud compute tpus "
        "accelerator-types list --zone={zone} --project={project}",
        reaction=Reaction.NEVER_HERE,
        signs=(
            Sign(
                REFUSED_REQUEST,
                says="accelerator.*(not found in zone|not be found in the zonal)",
            ),
        ),
    ),
    Row(
        key="zone_not_supported",
        kind="bad_request",
        short="zone without TPUs",
        samples=(
            Sample(
                'Cloud TPU received a bad request. The requested zone "asia-northeast1-a" is not '
                "supported. [EID: 0x4b1d6a1a0c4b7e0f]",
                http=400,
                status="INVALID_ARGUMENT",
            ),
        ),
        means="The zone exists, but it has no Cloud TPUs.",
        does="Gives this zone up for the slice and continues with the next one.",
        remedy="Check the zone's name. Run: gcloud compute tpus locations list --project={project}",
        reaction=Reaction.NEVER_HERE,
        signs=(Sign(REFUSED_REQUEST, says='requested zone "'),),
    ),
    Row(
        key="runtime_not_in_zone",
        kind="bad_request",
        short="runtime version not in this zone",
        samples=(
            Sample(
                'Cloud TPU received a bad request. The requested runtime version "tpu-vm-tf-9.9.9" '
                'was not found in zone "us-central2-b". [EID: 0x5be9ca996f9773a4]',
                http=400,
                status="INVALID_ARGUMENT",
            ),
        ),
        means="The zone does not have this runtime version. (Google's own wording is not known; "
        "this is the local cloud's.)",
        does="Gives this zone and type up for the slice and continues with the next one.",
        remedy="Leave runtime_version out to get the one that fits the type, or run: gcloud "
        "compute tpus tpu-vm versions list --zone={zone} --project={project}",
        reaction=Reaction.NEVER_HERE,
        signs=(Sign(REFUSED_REQUEST, says="runtime version .*not (be )?found"),),
    ),
    Row(
        key="flex_start",
        kind="bad_request",
        short="flex-start not offered",
        samples=(
            Sample(
                "FLEX_START provisioning model is not supported for accelerator type "
                '"v6e-1" in location "asia-east1-c"',
                code=INVALID_ARGUMENT,
            ),
        ),
        means="This type is not offered as flex-start in this zone. It may be offered in another "
        "tier.",
        does="Gives this zone and type up for the slice and continues with the next one.",
        remedy="Use another tier, or a zone and type for which flex-start is offered.",
        reaction=Reaction.NEVER_HERE,
        signs=(Sign(REFUSED_REQUEST, says="^FLEX_START provisioning model is not supported"),),
    ),
    Row(
        key="lost_state",
        kind="bad_request",
        short="node already lost",
        samples=(
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
        ),
        means="The node was preempted or has ended. It never recovers, but it counts against "
        "quota and grant until it is deleted.",
        does="Reads again; then deletes and recreates the node, if on_preempt says so.",
        remedy="The node is lost: delete it and create it again (recreate: true).",
        reaction=Reaction.LOOK,
        signs=(
            Sign(REFUSED_REQUEST, says="while in state (PREEMPTED|TERMINATED)"),
            Sign(REFUSED_REQUEST, says="Preemptible TPUs cannot be restarted"),
        ),
    ),
    Row(
        key="wrong_state",
        kind="bad_request",
        short="wrong state",
        samples=(
            Sample(
                "Cloud TPU received a bad request. update is not supported while in state CREATING "
                "[EID: 0x4b1d6a1a0c4b7e0f]",
                http=400,
                status="INVALID_ARGUMENT",
            ),
        ),
        means="This is impossible for the node, or queued resource, in its present state: "
        "labels, for example, cannot be set before a node is READY.",
        does="Reads again and makes a new plan from the state; gives up after some tries.",
        remedy="Wait until its state has changed (gcloud compute tpus tpu-vm list --zone=- shows "
        "it) and try again.",
        reaction=Reaction.LOOK,
        signs=(Sign(REFUSED_REQUEST, says="while in state "),),
    ),
    Row(
        key="single_host_only",
        kind="bad_request",
        short="several workers",
        samples=(
            Sample(
                "Cloud TPU received a bad request. This operation is only available with single "
                "TPU nodes. [EID: 0x4b1d6a1a0c4b7e0f]",
                http=400,
                status="INVALID_ARGUMENT",
            ),
        ),
        means="Only nodes with one worker can be stopped and started.",
        does="Never requests it.",
        remedy="Delete the node and create it again later.",
        reaction=Reaction.STOP,
        signs=(Sign(REFUSED_REQUEST, says="only available with single TPU nodes"),),
    ),
    Row(
        key="node_architecture",
        kind="bad_request",
        short="outdated API",
        samples=(
            Sample(
                "Your request to provision TPU Node has been denied. Please migrate to TPU VM "
                "Architecture or contact Cloud TPU team to gain TPU Node access.",
                http=400,
                status="FAILED_PRECONDITION",
            ),
        ),
        means="The request went to version 1 of the API, which no longer creates nodes.",
        does="Never requests it; it uses version 2.",
        remedy="Take the version out of api_endpoint: https://tpu.googleapis.com/ is enough.",
        reaction=Reaction.STOP,
        signs=(Sign(REFUSED_REQUEST, says="^Your request to provision TPU Node has been denied"),),
    ),
    Row(
        key="invalid_name",
        kind="bad_request",
        short="invalid name",
        samples=(Sample("Malformed name: 'My_Slice'", http=400, status="INVALID_ARGUMENT"),),
        means="The name breaks the rules for nodes and queued resources.",
        does="Checks names before any request to the API.",
        remedy="Use lower case letters, digits and dashes, a letter first, 63 at most.",
        reaction=Reaction.STOP,
        signs=(Sign(REFUSED_REQUEST, says="^Malformed name"),),
    ),
    Row(
        key="request_id",
        kind="bad_request",
        short="request id used twice",
        samples=(
            Sample(
                "The request was invalid: attempted to reuse 'request_id' for incompatible "
                "requests",
                http=400,
                status="INVALID_ARGUMENT",
            ),
        ),
        means="The same request id was used for two different requests.",
        does="Creates a new id for every request and sends it again only with the same request; "
        "reads the project again.",
        remedy="Use another request_id, or none.",
        reaction=Reaction.LOOK,
        signs=(Sign(REFUSED_REQUEST, says="reuse 'request_id'"),),
    ),
    Row(
        key="bad_request",
        kind="bad_request",
        short="request refused",
        samples=(
            Sample(
                "Invalid JSON payload received. Unknown name \"zone\" at 'node': Cannot find "
                "field.",
                http=400,
                status="INVALID_ARGUMENT",
                details=(
                    {
                        "@type": TYPE_URL + "BadRequest",
                        "fieldViolations": [{"field": "node", "description": "Cannot find field."}],
                    },
                ),
            ),
            Sample(
                "The request was invalid: invalid update mask", http=400, status="INVALID_ARGUMENT"
            ),
            Sample(
                "The request was invalid: invalid page token", http=400, status="INVALID_ARGUMENT"
            ),
            Sample("Invalid argument: 'page_size'", http=400, status="INVALID_ARGUMENT"),
            Sample(
                "The request was invalid: Must be a valid UUID",
                http=400,
                status="INVALID_ARGUMENT",
            ),
        ),
        means="The request itself is wrong; it would be refused anywhere and at any time.",
        does="Stops.",
        remedy="Correct what the message names.",
        reaction=Reaction.STOP,
        signs=(Sign(REFUSED_REQUEST), Sign(answer=True)),
    ),
    Row(
        key="unimplemented",
        kind="bad_request",
        short="not offered by this API",
        samples=(
            Sample("Operation is not implemented, or supported.", http=501, status="UNIMPLEMENTED"),
        ),
        means="This API does not have what was requested.",
        does="Stops.",
        remedy="Leave out what the message names.",
        reaction=Reaction.STOP,
        signs=(Sign((UNIMPLEMENTED,)),),
    ),
    # The service ----------------------------------------------------------------------------------
    Row(
        key="service_unavailable",
        kind="unavailable",
        short="service unavailable",
        samples=(
            Sample("The service is currently unavailable.", http=503, status="UNAVAILABLE"),
            Sample("The service is currently unavailable.", code=UNAVAILABLE),
        ),
        means="Google's service fails for a moment. The request may or may not have succeeded.",
        does="Repeats reads with growing pauses. After a creation or deletion it reads what "
        "the result is before it tries again.",
        remedy="Try again in a few minutes; nothing needs to be cleaned up.",
        reaction=Reaction.LOOK,
        signs=(Sign((UNAVAILABLE,)),),
    ),
    Row(
        key="internal",
        kind="unavailable",
        short="internal error of the API",
        samples=(
            Sample(
                "an internal error [EID: 0x77a1b2c3d4e5f607] has occurred",
                http=500,
                status="INTERNAL",
            ),
            Sample("Internal error. Please try again", http=503, status="UNAVAILABLE"),
        ),
        means="Google's service failed while it answered. The request may or may not have "
        "succeeded.",
        does="The same as when the service is unavailable: repeats reads, and reads before it "
        "repeats a creation or deletion.",
        remedy="Try again in a few minutes; nothing needs to be cleaned up.",
        reaction=Reaction.LOOK,
        signs=(
            Sign((INTERNAL,), answer=True),
            Sign((UNAVAILABLE,), says="^[Ii]nternal error"),
        ),
    ),
    Row(
        key="bad_gateway",
        kind="unavailable",
        short="bad gateway",
        samples=(
            Sample(
                "<!DOCTYPE html><html lang=en><title>Error 502 (Server Error)!!1</title><p><b>502."
                "</b> <ins>That's an error.</ins><p>The server encountered a temporary error and "
                "could not complete your request.<p>Please try again in 30 seconds.</html>",
                http=502,
            ),
            Sample("<html><h1>504 Gateway Timeout</h1></html>", http=504),
        ),
        means="A proxy between you and the service gave up waiting and sent a page instead of "
        "an answer. The request may or may not have succeeded.",
        does="The same as when the service is unavailable: repeats reads, and reads before it "
        "repeats a creation or deletion.",
        remedy="Try again in a few minutes; nothing needs to be cleaned up.",
        reaction=Reaction.LOOK,
        signs=(Sign((UNAVAILABLE,), http=(502, 504)),),
    ),
    Row(
        key="unavailable",
        kind="unavailable",
        short="no answer",
        samples=(
            Sample("https://tpu.googleapis.com/ does not answer: Connection refused"),
            Sample("The answer to v2/projects/my-project/locations/-/nodes is not JSON."),
        ),
        means="There was no answer, the connection broke, or another server answered: no network, "
        "a wrong endpoint, a login page of a hotel, a stopped local cloud. The request "
        "may or may not have succeeded.",
        does="The same as when the service is unavailable: repeats reads, and reads before it "
        "repeats a creation or deletion.",
        remedy="Check the endpoint and the network, then try again.",
        reaction=Reaction.LOOK,
    ),
    # What operations end with ---------------------------------------------------------------------
    Row(
        key="internal_error",
        kind="operation_failed",
        short="internal error",
        samples=(
            Sample("an internal error [EID: 0x77a1b2c3d4e5f607] has occurred", code=INTERNAL),
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
        means="Google's service could not create the node and does not say why. A queued resource "
        "that failed stays, and uses quota, until it is deleted.",
        does="Deletes what is left of it and tries again after a pause; meanwhile it tries the "
        "slice's next zone or type.",
        remedy="Try again; if it stays, try another zone.",
        reaction=Reaction.WAIT,
        signs=(Sign((INTERNAL,), answer=False),),
    ),
    Row(
        key="cancelled",
        kind="cancelled",
        short="cancelled",
        samples=(Sample("The operation was cancelled.", code=CANCELLED),),
        means="Somebody cancelled the operation.",
        does="Reads the result and makes a new plan.",
        remedy="Start it again if it is still wanted.",
        reaction=Reaction.LOOK,
        signs=(Sign((CANCELLED,)),),
    ),
    Row(
        key="operation_failed",
        kind="operation_failed",
        short="operation failed",
        samples=(Sample("The operation failed, code 2.", code=2),),
        means="An operation ended with an error that is not in this table.",
        does="Deletes what is left of it and tries again after a pause; meanwhile it tries the "
        "slice's next zone or type.",
        remedy="Try again; if it stays, report it with this message.",
        reaction=Reaction.WAIT,
        signs=(Sign(answer=False),),
    ),
    # Queued resources that have ended -------------------------------------------------------------
    Row(
        key="queued_expired",
        kind="operation_failed",
        short="queued in vain",
        samples=(
            Sample(
                "The resources could not be provisioned before the valid until time of the "
                "request.",
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
        means="The request waited in the queue for as long as it was allowed to, and got no "
        "capacity. (Google's wording is not known; this is the local cloud's.) " + _STILL_COUNTS,
        does="Deletes it and queues a new one, in the next zone if there are several.",
        remedy="Queue it again, for longer (valid_for), or in another zone.",
        reaction=Reaction.NEXT_PLACE,
        signs=(Sign(says="valid.until time", answer=False),),
    ),
    Row(
        key="queued_failed",
        kind="node_lost",
        short="queued resource failed",
        samples=(
            Sample(
                "The queued resource big in us-central2-b is FAILED.",
                queued={"state": "FAILED", "failedData": {}},
            ),
        ),
        means="The queued resource ended without nodes, and the API does not say why. "
        + _STILL_COUNTS,
        does="Deletes it and queues it again.",
        remedy=_REQUEST_AGAIN,
        reaction=Reaction.WAIT,
    ),
    Row(
        key="queued_suspended",
        kind="node_lost",
        short="suspended by the service",
        samples=(
            Sample(
                "The queued resource big in us-central2-b is SUSPENDED by the service.",
                queued={"state": "SUSPENDED", "stateInitiator": "SERVICE", "suspendedData": {}},
            ),
        ),
        means="Google took the hardware back (preemption or maintenance) and deleted the nodes. It "
        "never becomes active again. " + _STILL_COUNTS,
        does="Deletes it and queues it again, if on_preempt says so. Runs resume from their "
        "checkpoints.",
        remedy=_REQUEST_AGAIN,
        reaction=Reaction.LOOK,
    ),
    Row(
        key="queued_suspended_by_user",
        kind="node_lost",
        short="suspended by a person",
        samples=(
            Sample(
                "The queued resource big in us-central2-b is SUSPENDED by a user.",
                queued={"state": "SUSPENDED", "stateInitiator": "USER", "suspendedData": {}},
            ),
        ),
        means="Somebody deleted its nodes. It never becomes active again. " + _STILL_COUNTS,
        does="Deletes it and queues it again, if on_preempt says so.",
        remedy=_REQUEST_AGAIN,
        reaction=Reaction.LOOK,
    ),
    Row(
        key="queued_has_nodes",
        kind="bad_request",
        short="queued resource has nodes",
        samples=(
            Sample(
                'Cloud TPU received a bad request. The queued resource "big" in state ACTIVE has '
                "nodes: delete them first, or set force. [EID: 0x4b1d6a1a0c4b7e0f]",
                http=400,
                status="FAILED_PRECONDITION",
            ),
        ),
        means="A queued resource can only be deleted when it has no nodes left. (Google's own "
        "wording is not known; this is the local cloud's.)",
        does="Deletes with force, nodes first.",
        remedy="Delete its nodes first, or delete it with force.",
        reaction=Reaction.LOOK,
        signs=(Sign(REFUSED_REQUEST, says="queued resource .* has nodes"),),
    ),
    # What tpu.fleet itself says -------------------------------------------------------------------
    Row(
        key="node_lost",
        kind="node_lost",
        short="node lost",
        samples=(Sample("The node big in us-central2-b is PREEMPTED."),),
        means="A node, or queued resource, reached a final state, while it was waited for.",
        does="Deletes and recreates it, if on_preempt says so.",
        remedy="Delete it and create it again (recreate: true).",
        reaction=Reaction.LOOK,
    ),
    Row(
        key="refused",
        kind="refused",
        short="refused",
        samples=(
            Sample("The node big in us-central2-b has no label tpu-fleet, so it is left alone."),
            Sample("Nothing was changed, as 1 of 2 slices cannot be had:"),
            Sample(
                "alice_at_laptop is working on this fleet, until 2026-11-21 12:20:00 UTC at the "
                "latest."
            ),
        ),
        means="A rule of tpu.fleet itself forbids it: it would touch foreign resources, lose "
        "data, exceed the grant, or disturb a controller that is at work. The message "
        "says which.",
        does="Changes nothing.",
        remedy="Change the fleet file as the message says, or do it by hand if you are sure.",
        reaction=Reaction.STOP,
    ),
    Row(
        key="timeout",
        kind="timeout",
        short="time is up",
        samples=(
            Sample("Waited 1800 s for node big in us-central2-b to be READY; last seen: CREATING."),
        ),
        means="It took longer than the limit. Nothing is undone: the request continues.",
        does="Stops waiting. The next apply resumes the wait.",
        remedy="Raise wait_timeout, or look at the node's state and health.",
        reaction=Reaction.LOOK,
    ),
    Row(
        key="error",
        kind="error",
        short="error",
        samples=(Sample("There is no project."),),
        means="Something else is wrong; the message says what.",
        does="Stops.",
        remedy="Correct what the message names.",
        reaction=Reaction.STOP,
    ),
)

_BY_KEY = {row.key: row for row in ROWS}
_BY_FLAVOUR = {(row.kind, row.flavour): row for row in ROWS if row.flavour}


def _by_weight() -> Iterator[tuple[Sign, Row]]:
    pairs = [(sign, row) for row in ROWS for sign in row.signs]
    # The sort is stable: of two signs that ask for as much, the earlier row's is tried first.
    yield from sorted(pairs, key=lambda pair: pair[0].weight, reverse=True)


_SIGNS = tuple(_by_weight())


def row_named(key: str) -> Row:
    """Return the row with this key."""
    return _BY_KEY[key]


def row_for(kinds: Iterable[str], flavour: str = "") -> Row:
    """Return the row of an error that is of these kinds, the nearest first."""
    for kind in kinds:
        row = _BY_FLAVOUR.get((kind, flavour)) or _BY_KEY.get(kind)
        if row is not None:
            return row
    return _BY_KEY["error"]


def row_by_signs(evidence: Evidence) -> Row:
    """Return the row of an answer."""
    for sign, row in _SIGNS:
        if sign.fits(evidence):
            return row
    return _BY_KEY["error"]
