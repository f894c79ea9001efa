# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of errors: the signs of each, its meaning, the reaction and the remedy.

`errors.py` finds the row of an answer by its signs and takes the remedy from it, the planner its
reaction; docs/errors.md is generated from it. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .error_row import (
    ABORTED,
    ALREADY_EXISTS,
    CANCELLED,
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
    Sign,
)

__all__ = ["ROWS", "Reaction", "Row", "row_by_signs", "row_for", "row_named"]

REFUSED_REQUEST = (INVALID_ARGUMENT, FAILED_PRECONDITION)

_STILL_COUNTS = "It uses quota until it is deleted."
_REQUEST_AGAIN = "Delete it and request it again (recreate: true); until then it uses up quota."

ROWS: tuple[Row, ...] = (
    # Capacity -------------------------------------------------------------------------------------
    Row(
        key="stock_out",
        kind="stock_out",
        short="no capacity",
        means="All hardware of this type in this zone is in use by others. It says nothing about "
        "your quota or your grant, and it can change at any moment. A flex-start request that is "
        "PENDING on Compute Engine does not show whether capacity or quota is missing.",
        does="Requests the slice's next zone or type immediately, and this one again later, with "
        "pauses that grow from half a minute to ten. A queued request stays in Google's queue.",
        remedy="Try again later, in another zone, or queue the request.",
        reaction=Reaction.NEXT_PLACE,
        signs=(
            Sign((RESOURCE_EXHAUSTED,), says="^There is no more capacity"),
            # Compute Engine's, in an operation or at once.
            Sign(
                (RESOURCE_EXHAUSTED, UNAVAILABLE),
                says="does not have enough resources available to fulfill",
            ),
            Sign((RESOURCE_EXHAUSTED,), answer=False),
        ),
    ),
    Row(
        key="reserved_capacity",
        kind="stock_out",
        short="no reserved capacity",
        means="The reservation is full, or the type is only available with a reservation in this "
        "zone (v5p on demand, for one) and the request names none.",
        does="As for no capacity: the next zone or type immediately, this one again later.",
        remedy="Have the reservation enlarged, or free a place in it. Without a reservation, use "
        "one, or another zone or tier.",
        reaction=Reaction.NEXT_PLACE,
        signs=(
            Sign((RESOURCE_EXHAUSTED, FAILED_PRECONDITION), says="^Insufficient reserved capacity"),
            # So Compute Engine says it, where kubernetes' autoscaler met it.
            Sign(
                (RESOURCE_EXHAUSTED, FAILED_PRECONDITION),
                says="reservation .*does not have available resources|"
                "No available resources in specified reservation",
            ),
        ),
    ),
    Row(
        key="reservation_missing",
        kind="not_found",
        short="reservation not found",
        means="The reservation does not exist, or the type is only available with a reservation in "
        "this zone (v5e on demand, for one) and the request names none.",
        does="Gives this zone up for the slice and continues with the next one.",
        remedy="Check the reservation's name; without a reservation use another zone or tier.",
        reaction=Reaction.NEVER_HERE,
        signs=(
            Sign((NOT_FOUND,), says="^Reservation not found"),
            Sign(
                (NOT_FOUND, INVALID_ARGUMENT, FAILED_PRECONDITION),
                says="^Specified reservations? .*do(es)? not exist",
            ),
        ),
    ),
    # Quota and rate -------------------------------------------------------------------------------
    Row(
        key="quota_zero",
        kind="quota",
        flavour="zero",
        short="no quota here",
        means="The project has no quota for this type and tier in this zone or region. It is "
        "not used up: there never was any. The Cloud TPU API and Compute Engine have quotas of "
        "their own, and a grant for one is none for the other.",
        does="Gives this zone and type up for the slice and continues with the next one; says so "
        "when none is left.",
        remedy="The project has no quota for this type here, so it will never succeed: use the "
        "zones, types and tiers of the grant, or ask for quota.",
        reaction=Reaction.NEVER_HERE,
        signs=(
            Sign((RESOURCE_EXHAUSTED,), detail="QuotaFailure", limit=0),
            Sign((RESOURCE_EXHAUSTED,), says="^Quota limit '", limit=0),
            Sign((RESOURCE_EXHAUSTED,), says="^Quota '[A-Z0-9_]+' exceeded", limit=0),
        ),
    ),
    Row(
        key="quota",
        kind="quota",
        short="quota used up",
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
            Sign((RESOURCE_EXHAUSTED,), says="^Quota '[A-Z0-9_]+' exceeded"),
            Sign((RESOURCE_EXHAUSTED,), says="^Quota limit '"),
        ),
    ),
    Row(
        key="rate_limit",
        kind="rate_limit",
        short="too many requests",
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
        short="API disabled",
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
        short="billing disabled",
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
        means="This type is not offered to this project in this zone. Despite its wording the "
        "error is unrelated to your roles.",
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
        # A missing project looks the same to those who may not see it.
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
        means="There is no login here, or it has expired. A token that expires during a long "
        "wait is renewed automatically; this error remains when that fails.",
        does="Requests a new token once; then stops.",
        remedy="Run: gcloud auth application-default login",
        reaction=Reaction.STOP,
        signs=(Sign((UNAUTHENTICATED,)),),
    ),
    # Existing and missing resources ---------------------------------------------------------------
    Row(
        key="not_found",
        kind="not_found",
        short="not there",
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
        means="There is a node or queued resource with this name in the zone.",
        does="Checks the owner. Its own creation, whose answer was lost, counts as done; what is "
        "another client's is left alone and reported.",
        remedy="Choose another name, or delete what has this one.",
        reaction=Reaction.LOOK,
        signs=(Sign((ALREADY_EXISTS,)),),
    ),
    Row(
        key="name_taken",
        kind="name_taken",
        short="name of a part taken",
        means="A slice of several machines on Compute Engine has a template and a workload policy "
        "of its name in the region, and there already is one that is not this fleet's.",
        does="Leaves it alone, gives the zone up for the slice and continues with the next one.",
        remedy="Give the slice another name, or delete what has this one.",
        reaction=Reaction.NEVER_HERE,
    ),
    Row(
        key="busy",
        kind="busy",
        short="busy",
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
        key="machine_type_not_in_zone",
        kind="bad_request",
        short="machine type not in this zone",
        means="The zone does not list this machine type, or there is no such type. A zone that "
        "lists it may have none free, and may refuse it all the same.",
        does="Gives this zone and type up for the slice and continues with the next one.",
        remedy="Check the machine type and the zone. Run: gcloud compute machine-types list "
        "--zones={zone} --project={project}",
        reaction=Reaction.NEVER_HERE,
        signs=(
            Sign((*REFUSED_REQUEST, NOT_FOUND), says="[Mm]achine type .*does not exist in zone"),
        ),
    ),
    Row(
        key="user_agent",
        kind="bad_request",
        short="machine type only for GKE",
        means="Compute Engine lists this machine type (v5e, for one), and gives it to GKE alone.",
        does="Gives this zone and type up for the slice and continues with the next one.",
        remedy="Have the slice made by the Cloud TPU API (api: tpu), or use another type.",
        reaction=Reaction.NEVER_HERE,
        signs=(
            Sign(
                (*REFUSED_REQUEST, PERMISSION_DENIED),
                says="user agent is not allowed to use the machine type",
            ),
        ),
    ),
    Row(
        key="organization_policy",
        kind="bad_request",
        short="forbidden by the organization",
        means="A policy of the organization forbids what was requested; the message names it. Most "
        "often it is vmExternalIpAccess: machines may have no external address.",
        does="Stops.",
        remedy="With vmExternalIpAccess set external_ips: false; the machines then need Cloud NAT "
        "to reach the internet, and you reach them through IAP. Or ask the organization's "
        "administrator for an exception.",
        reaction=Reaction.STOP,
        signs=(
            Sign((*REFUSED_REQUEST, PERMISSION_DENIED), says="Constraint constraints/.* violated"),
        ),
    ),
    Row(
        key="outdated",
        kind="bad_request",
        short="changed meanwhile",
        means="Another client changed the labels, metadata or content after they were read, so the "
        "change was not made.",
        does="Reads again, and makes the change to what it finds; gives up after eight tries.",
        remedy="Try again.",
        reaction=Reaction.LOOK,
        signs=(Sign((FAILED_PRECONDITION,), http=(412,)),),
    ),
    Row(
        key="zone_not_supported",
        kind="bad_request",
        short="zone without TPUs",
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
        means="The node was preempted or has ended. It never recovers, but it counts against "
        "quota and grant until it is deleted.",
        does="Reads again; then deletes and recreates the node, if on_preempt says so.",
        remedy="The node is lost: delete it and create it again (recreate: true).",
        reaction=Reaction.LOOK,
        signs=(
            Sign(REFUSED_REQUEST, says="while in state (PREEMPTED|TERMINATED)"),
            Sign(REFUSED_REQUEST, says="(Preemptible|Spot VM) TPUs cannot be restarted"),
        ),
    ),
    Row(
        key="wrong_state",
        kind="bad_request",
        short="wrong state",
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
        means="The request went to version 1 of the API, which no longer creates nodes.",
        does="Never requests it; it uses version 2.",
        remedy="Remove the version from api_endpoint: https://tpu.googleapis.com/ is enough.",
        reaction=Reaction.STOP,
        signs=(Sign(REFUSED_REQUEST, says="^Your request to provision TPU Node has been denied"),),
    ),
    Row(
        key="invalid_name",
        kind="bad_request",
        short="invalid name",
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
        means="There was no answer, the connection broke, or another server answered: no network, "
        "a wrong endpoint, a login page of a hotel, a stopped local cloud. The request "
        "may or may not have succeeded.",
        does="The same as when the service is unavailable: repeats reads, and reads before it "
        "repeats a creation or deletion.",
        remedy="Check the endpoint and the network, then try again.",
        reaction=Reaction.LOOK,
    ),
    # Errors of operations ---------------------------------------------------------------------
    Row(
        key="internal_error",
        kind="operation_failed",
        short="internal error",
        means="Google's service could not create the node and does not say why. A queued resource "
        "that failed stays, and uses quota, until it is deleted. On Compute Engine it may come "
        "after minutes of STAGING, when there was no capacity after all.",
        does="Deletes what is left of it and tries again after a pause; meanwhile it tries the "
        "slice's next zone or type.",
        remedy="Try again; if the error persists, try another zone.",
        reaction=Reaction.WAIT,
        signs=(Sign((INTERNAL,), answer=False),),
    ),
    Row(
        key="cancelled",
        kind="cancelled",
        short="cancelled",
        means="A client cancelled the operation.",
        does="Reads the result and makes a new plan.",
        remedy="Start it again if it is still wanted.",
        reaction=Reaction.LOOK,
        signs=(Sign((CANCELLED,)),),
    ),
    Row(
        key="operation_failed",
        kind="operation_failed",
        short="operation failed",
        means="An operation ended with an error that is not in this table.",
        does="Deletes what is left of it and tries again after a pause; meanwhile it tries the "
        "slice's next zone or type.",
        remedy="Try again; if the error persists, report it with this message.",
        reaction=Reaction.WAIT,
        signs=(Sign(answer=False),),
    ),
    # Queued resources that have ended -------------------------------------------------------------
    Row(
        key="queued_expired",
        kind="operation_failed",
        short="queued without success",
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
        means="A client deleted its nodes. It never becomes active again. " + _STILL_COUNTS,
        does="Deletes it and queues it again, if on_preempt says so.",
        remedy=_REQUEST_AGAIN,
        reaction=Reaction.LOOK,
    ),
    Row(
        key="queued_has_nodes",
        kind="bad_request",
        short="queued resource has nodes",
        means="A queued resource can only be deleted when it has no nodes left. (Google's own "
        "wording is not known; this is the local cloud's.)",
        does="Deletes with force, nodes first.",
        remedy="Delete its nodes first, or delete it with force.",
        reaction=Reaction.LOOK,
        signs=(Sign(REFUSED_REQUEST, says="queued resource .* has nodes"),),
    ),
    # Errors of tpu.fleet itself -------------------------------------------------------------------
    Row(
        key="node_lost",
        kind="node_lost",
        short="node lost",
        means="A node, or queued resource, reached a final state, while it was waited for.",
        does="Deletes and recreates it, if on_preempt says so.",
        remedy="Delete it and create it again (recreate: true).",
        reaction=Reaction.LOOK,
    ),
    Row(
        key="refused",
        kind="refused",
        short="refused",
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
        means="It took longer than the limit. Nothing is undone: the request continues.",
        does="Stops waiting. The next apply resumes the wait.",
        remedy="Raise wait_timeout, or look at the node's state and health.",
        reaction=Reaction.LOOK,
    ),
    Row(
        key="error",
        kind="error",
        short="error",
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
    # The sort is stable: of two equally specific signs, that of the earlier row is tried first.
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
