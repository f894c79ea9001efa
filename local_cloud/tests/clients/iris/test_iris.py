"""Every method of CloudGcpService, marin-iris' way to TPUs and VMs: REST, and gRPC of alpha."""

from __future__ import annotations

from typing import Any

import pytest
from cloud_of_clients import LocalCloud
from iris.cluster.config import GcpPlatformConfig
from iris.cluster.platforms.gcp.cloud import CloudGcpService
from iris.cluster.platforms.gcp.service import (
    CAPACITY_TYPE_LABEL,
    CAPACITY_TYPE_RESERVED_VALUE,
    TpuCreateRequest,
    VmCreateRequest,
    operation_error,
)
from iris.cluster.platforms.gcp.workers import GcpWorkerProvider
from iris.cluster.platforms.types import (
    InfraError,
    InfraUnavailableError,
    QuotaExhaustedError,
    ResourceNotFoundError,
)
from iris.cluster.types import CapacityType

ZONE, ELSEWHERE = "us-east5-a", "us-east5-b"
FAMILY = "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"


def tpu(name: str = "slice", **more: Any) -> TpuCreateRequest:
    common = {
        "zone": ZONE,
        "accelerator_type": "v6e-4",
        "runtime_version": "v2-alpha-tpuv6e",
        "capacity_type": CapacityType.PREEMPTIBLE,
        "labels": {"iris-slice": "a"},
    }
    return TpuCreateRequest(name=name, **{**common, **more})


def vm(name: str = "vm", **more: Any) -> VmCreateRequest:
    common = {
        "zone": ZONE,
        "machine_type": "ct6e-standard-1t",
        "labels": {"iris-vm": "a"},
        "disk_size_gb": 50,
        "boot_disk_type": "hyperdisk-balanced",
        "image_family": FAMILY,
        "image_project": "ubuntu-os-accelerator-images",
    }
    return VmCreateRequest(name=name, **{**common, **more})


def reserve(cloud: LocalCloud) -> None:
    reservation = {"zone": ZONE, "name": "lab", "chips": 8, "accelerator_type": "v6e"}
    cloud.control("reservations", reservation)


# TPUs ----------------------------------------------------------------------------------------


def test_a_tpu(service: CloudGcpService) -> None:
    made = service.tpu_create(
        tpu(metadata={"k": "v"}, network="default", service_account="sa@p.iam.gserviceaccount.com")
    )
    assert operation_error(service.tpu_operation_status(made.operation_name)) is None
    assert service.tpu_operation_status(made.operation_name).done
    found = service.tpu_describe("slice", ZONE)
    assert found is not None
    assert (found.state, found.accelerator_type) == ("READY", "v6e-4")
    assert found.metadata["k"] == "v"
    assert found.service_account == "sa@p.iam.gserviceaccount.com"
    assert len(found.network_endpoints) == 1
    assert found.external_network_endpoints[0]
    service.tpu_delete("slice", ZONE)
    assert service.tpu_describe("slice", ZONE) is None
    service.tpu_delete("slice", ZONE)


def test_a_pod_without_external_addresses(service: CloudGcpService) -> None:
    service.tpu_create(tpu(accelerator_type="v6e-16", enable_external_ip=False))
    found = service.tpu_describe("slice", ZONE)
    assert found is not None
    assert len(found.network_endpoints) == 4
    assert found.external_network_endpoints == [None] * 4


@pytest.mark.parametrize("zones", [[ZONE], [ZONE, ELSEWHERE], []], ids=["one", "two", "all"])
@pytest.mark.parametrize("labels", [None, {"iris-slice": "b"}], ids=["any", "labelled"])
def test_tpus_are_listed(
    service: CloudGcpService, zones: list[str], labels: dict[str, str] | None
) -> None:
    service.tpu_create(tpu("a"))
    service.tpu_create(tpu("b", labels={"iris-slice": "b"}))
    service.tpu_create(tpu("c", zone=ELSEWHERE, labels={"iris-slice": "b"}))
    found = {(each.name, each.zone) for each in service.tpu_list(zones, labels)}
    expected = {("b", ZONE)} | ({("a", ZONE)} if labels is None else set())
    assert found == expected | ({("c", ELSEWHERE)} if len(zones) != 1 else set())


def test_no_capacity_is_told_by_the_operation(cloud: LocalCloud, service: CloudGcpService) -> None:
    cloud.fault("stock_out")
    made = service.tpu_create(tpu())
    status = service.tpu_operation_status(made.operation_name)
    assert isinstance(operation_error(status), QuotaExhaustedError)
    assert service.tpu_describe("slice", ZONE) is None


@pytest.mark.parametrize(
    ("fault", "options", "expected"),
    [
        ("quota", {"limit": 0}, QuotaExhaustedError),
        ("rate_limit", {}, QuotaExhaustedError),
        ("iam_denied", {}, InfraError),
        ("unavailable", {}, InfraUnavailableError),
    ],
)
def test_errors_of_a_request(
    cloud: LocalCloud,
    service: CloudGcpService,
    fault: str,
    options: dict[str, Any],
    expected: type[Exception],
) -> None:
    cloud.fault(fault, options=options, match={"zone": ZONE})
    with pytest.raises(expected):
        service.tpu_create(tpu())
    cloud.mend()
    assert service.tpu_list([]) == []


def test_a_tpu_that_exists(service: CloudGcpService) -> None:
    service.tpu_create(tpu())
    with pytest.raises(InfraError, match=r"409.*already exists"):
        service.tpu_create(tpu())
    assert len(service.tpu_list([ZONE])) == 1


def test_a_runtime_version_that_does_not_exist(service: CloudGcpService) -> None:
    with pytest.raises(InfraError, match="none-such"):
        service.tpu_create(tpu(runtime_version="none-such"))
    assert service.tpu_list([]) == []


def test_a_preempted_tpu(cloud: LocalCloud, service: CloudGcpService) -> None:
    service.tpu_create(tpu())
    cloud.control(f"nodes/{cloud.project}/{ZONE}/slice:preempt", {"notice": 0})
    assert [each.state for each in service.tpu_list([])] == ["PREEMPTED"]
    service.tpu_delete("slice", ZONE)
    assert service.tpu_list([]) == []


def test_lists_of_several_pages(cloud: LocalCloud, service: CloudGcpService) -> None:
    for name in ("a", "b", "c"):
        service.tpu_create(tpu(name))
        service.vm_create(vm(f"vm-{name}"))
    cloud.fault("page_size", options={"size": 1})
    assert {each.name for each in service.tpu_list([])} == {"a", "b", "c"}
    assert {each.name for each in service.vm_list([])} == {"vm-a", "vm-b", "vm-c"}
    assert {each.name for each in service.vm_list([ZONE])} == {"vm-a", "vm-b", "vm-c"}


def test_reads_are_repeated_while_the_service_is_unavailable(
    cloud: LocalCloud, service: CloudGcpService
) -> None:
    service.tpu_create(tpu())
    cloud.fault("unavailable", count=1)
    assert [each.name for each in service.tpu_list([ZONE])] == ["slice"]


# Queued resources, over gRPC ------------------------------------------------------------------


def test_a_queued_resource(cloud: LocalCloud, service: CloudGcpService) -> None:
    reserve(cloud)
    service.queued_resource_create(tpu(capacity_type=CapacityType.RESERVED))
    found = service.queued_resource_describe("slice", ZONE)
    assert found is not None
    assert found.state == "ACTIVE"
    node = service.tpu_describe("slice", ZONE)
    assert node is not None
    assert node.labels == {"iris-slice": "a"}
    for zones in ([ZONE], []):
        listed = service.queued_resource_list(zones, {"iris-slice": "a"})
        assert [(each.name, each.zone) for each in listed] == [("slice", ZONE)]
    assert service.queued_resource_list([], {"iris-slice": "b"}) == []
    service.queued_resource_delete("slice", ZONE)
    assert service.queued_resource_describe("slice", ZONE) is None
    assert service.tpu_list([]) == []
    service.queued_resource_delete("slice", ZONE)


def test_a_queued_resource_over_quota(cloud: LocalCloud, service: CloudGcpService) -> None:
    cloud.fault("quota", options={"limit": 0})
    with pytest.raises(QuotaExhaustedError):
        service.queued_resource_create(tpu(capacity_type=CapacityType.RESERVED))


def test_a_queued_resource_that_exists(cloud: LocalCloud, service: CloudGcpService) -> None:
    reserve(cloud)
    service.queued_resource_create(tpu(capacity_type=CapacityType.RESERVED))
    with pytest.raises(InfraError, match=r"409.*already exists"):
        service.queued_resource_create(tpu(capacity_type=CapacityType.RESERVED))


def test_a_queued_resource_that_waits(cloud: LocalCloud, service: CloudGcpService) -> None:
    reserve(cloud)
    cloud.fault("stock_out")
    service.queued_resource_create(tpu(capacity_type=CapacityType.RESERVED))
    found = service.queued_resource_describe("slice", ZONE)
    assert found is not None
    assert found.state == "WAITING_FOR_RESOURCES"
    assert service.tpu_describe("slice", ZONE) is None
    service.queued_resource_delete("slice", ZONE)
    assert service.queued_resource_list([]) == []


@pytest.mark.parametrize(("verb", "state"), [("fail", "FAILED"), ("suspend", "SUSPENDED")])
def test_a_queued_resource_that_ends(
    cloud: LocalCloud, service: CloudGcpService, verb: str, state: str
) -> None:
    reserve(cloud)
    if verb == "fail":
        cloud.fault("stock_out")
    service.queued_resource_create(tpu(capacity_type=CapacityType.RESERVED))
    cloud.control(f"queuedResources/{cloud.project}/{ZONE}/slice:{verb}", {})
    assert [each.state for each in service.queued_resource_list([])] == [state]
    service.queued_resource_delete("slice", ZONE)
    assert service.queued_resource_list([]) == []


# VMs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", [False, True])
def test_a_vm(service: CloudGcpService, wait: bool) -> None:
    made = service.vm_create(vm(startup_script="true", network_tags=("iris",)), wait=wait)
    assert made.status == ("RUNNING" if wait else "PROVISIONING")
    found = service.vm_describe("vm", ZONE)
    assert found is not None
    assert found.status == "RUNNING"
    assert found.internal_ip
    assert found.external_ip
    assert found.metadata["startup-script"] == "true"
    service.vm_delete("vm", ZONE, wait=wait)
    assert service.vm_describe("vm", ZONE) is None
    service.vm_delete("vm", ZONE)


def test_a_vm_that_exists(service: CloudGcpService) -> None:
    first = service.vm_create(vm(), wait=True)
    again = service.vm_create(vm(), wait=True)
    assert first.internal_ip == again.internal_ip


@pytest.mark.parametrize("zones", [[ZONE], []], ids=["zone", "all"])
@pytest.mark.parametrize("labels", [None, {"iris-vm": "b"}], ids=["any", "labelled"])
def test_vms_are_listed(
    service: CloudGcpService, zones: list[str], labels: dict[str, str] | None
) -> None:
    service.vm_create(vm("a"))
    service.vm_create(vm("b", labels={"iris-vm": "b"}))
    found = {each.name for each in service.vm_list(zones, labels)}
    assert found == ({"a", "b"} if labels is None else {"b"})


def test_a_vm_is_changed(service: CloudGcpService) -> None:
    service.vm_create(vm())
    service.vm_update_labels("vm", ZONE, {"more": "yes"})
    service.vm_set_metadata("vm", ZONE, {"k": "v"})
    found = service.vm_describe("vm", ZONE)
    assert found is not None
    assert found.labels == {"iris-vm": "a", "more": "yes"}
    assert found.metadata["k"] == "v"
    assert service.vm_get_serial_port_output("vm", ZONE)
    with pytest.raises(ResourceNotFoundError):
        service.vm_update_labels("none", ZONE, {"a": "b"})


def test_vms_are_listed_by_several_labels(service: CloudGcpService) -> None:
    service.vm_create(vm("a", labels={"iris-vm": "a", "group": "one"}))
    service.vm_create(vm("b", labels={"iris-vm": "a", "group": "two"}))
    labels = {"iris-vm": "a", "group": "two"}
    assert [each.name for each in service.vm_list([], labels)] == ["b"]


def test_a_vm_with_a_service_account(service: CloudGcpService) -> None:
    service.vm_create(vm(service_account="iris@local-project.iam.gserviceaccount.com"))
    found = service.vm_describe("vm", ZONE)
    assert found is not None
    assert found.service_account == "iris@local-project.iam.gserviceaccount.com"


def test_a_vm_that_does_not_exist(service: CloudGcpService) -> None:
    with pytest.raises(ResourceNotFoundError):
        service.vm_set_metadata("none", ZONE, {"k": "v"})
    assert service.vm_get_serial_port_output("none", ZONE) == ""


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("rate_limit", QuotaExhaustedError),
        ("iam_denied", InfraError),
        ("unavailable", InfraUnavailableError),
    ],
)
def test_errors_of_a_request_for_a_vm(
    cloud: LocalCloud, service: CloudGcpService, fault: str, expected: type[Exception]
) -> None:
    cloud.fault(fault)
    with pytest.raises(expected):
        service.vm_create(vm())
    cloud.mend()
    assert service.vm_list([]) == []


def test_no_capacity_for_a_vm(cloud: LocalCloud, service: CloudGcpService) -> None:
    cloud.fault("stock_out")
    with pytest.raises(InfraError, match="does not have enough resources"):
        service.vm_create(vm(), wait=True)
    assert service.vm_list([]) == []


def test_the_controller_is_no_tpu_vm(service: CloudGcpService) -> None:
    """The local cloud has only VMs with TPUs, and says so in Google's words."""
    with pytest.raises(InfraError, match="The referenced resource does not exist"):
        service.vm_create(vm("controller", machine_type="e2-highmem-2"))


def test_logs_are_none(service: CloudGcpService) -> None:
    assert service.logging_read("anything") == []


# Slices, as its autoscaler sees them -----------------------------------------------------------


def test_slices_of_each_kind(cloud: LocalCloud, service: CloudGcpService) -> None:
    """A TPU, a queued resource that waits, and a VM, each found with its state, and deleted."""
    reserve(cloud)
    config = GcpPlatformConfig(project_id=cloud.project)
    provider = GcpWorkerProvider(config, "lab", 10001, service)
    managed = {provider.iris_labels.iris_managed: "true"}
    reserved = {**managed, CAPACITY_TYPE_LABEL: CAPACITY_TYPE_RESERVED_VALUE}
    service.tpu_create(tpu("pod", accelerator_type="v6e-16", labels=managed))
    service.vm_create(vm(labels={**managed, provider.iris_labels.iris_slice_id: "single"}))
    service.tpu_create(tpu("other"))
    cloud.fault("stock_out")
    service.queued_resource_create(
        tpu("waiting", capacity_type=CapacityType.RESERVED, labels=reserved)
    )
    listed = {each.handle.slice_id: each for each in provider.list_all_slices()}
    assert {name: each.state.name for name, each in listed.items()} == {
        "pod": "READY",
        "waiting": "CREATING",
        "single": "READY",
    }
    workers = {name: each.handle.describe().worker_count for name, each in listed.items()}
    assert workers == {"pod": 4, "waiting": 0, "single": 1}
    assert {each.slice_id for each in provider.list_slices([ZONE], managed)} == {"pod", "single"}
    for each in listed.values():
        each.handle.terminate()
    assert provider.list_all_slices() == []
