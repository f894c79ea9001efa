"""Google's own library for Compute Engine: create, list, wait, delete."""

from __future__ import annotations

from typing import Any

import pytest
from emulator import Emulator
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import compute_v1

PROJECT, REGION = Emulator.project, "us-central1"
TPU7X, V6E = "us-central1-c", "us-central1-b"
IMAGES = "projects/ubuntu-os-accelerator-images/global/images/family"
FOR_7X, BEFORE = "ubuntu-accel-2404-amd64-tpu-tpu7x", "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"
POLICY = f"projects/{PROJECT}/regions/{REGION}/resourcePolicies/s1"
HERE: dict[str, Any] = {"project": PROJECT, "zone": TPU7X}
THERE: dict[str, Any] = {"project": PROJECT, "zone": V6E}
AROUND: dict[str, Any] = {"project": PROJECT, "region": REGION}


def client(cloud: Emulator, kind: type[Any]) -> Any:
    endpoint = {"api_endpoint": cloud.url.rstrip("/")}
    return kind(credentials=AnonymousCredentials(), client_options=endpoint)


def waits_here(cloud: Emulator, instances: Any) -> Any:
    """Return a client that waits for operations at the cloud, as docs/internals/gcloud.md says."""
    services = instances.transport._extended_operations_services
    services["zone_operations"] = client(cloud, compute_v1.ZoneOperationsClient)
    return instances


def boot_disk(family: str) -> compute_v1.AttachedDisk:
    source = compute_v1.AttachedDiskInitializeParams(
        source_image=f"{IMAGES}/{family}", disk_size_gb=100
    )
    return compute_v1.AttachedDisk(boot=True, auto_delete=True, initialize_params=source)


def an_instance(name: str, kind: str, **more: Any) -> compute_v1.Instance:
    """Return the wish for an instance in THERE."""
    return compute_v1.Instance(
        name=name,
        machine_type=f"zones/{V6E}/machineTypes/{kind}",
        disks=[boot_disk(BEFORE)],
        network_interfaces=[compute_v1.NetworkInterface(network="global/networks/default")],
        **more,
    )


def test_a_slice(cloud: Emulator) -> None:
    policies = client(cloud, compute_v1.ResourcePoliciesClient)
    workload = compute_v1.ResourcePolicyWorkloadPolicy(
        type_="HIGH_THROUGHPUT", accelerator_topology="2x2x2"
    )
    policy = compute_v1.ResourcePolicy(name="s1", workload_policy=workload)
    policies.insert(**AROUND, resource_policy_resource=policy).result(30)
    templates = client(cloud, compute_v1.RegionInstanceTemplatesClient)
    properties = compute_v1.InstanceProperties(
        machine_type="tpu7x-standard-4t",
        disks=[boot_disk(FOR_7X)],
        network_interfaces=[compute_v1.NetworkInterface(network="global/networks/default")],
        scheduling=compute_v1.Scheduling(on_host_maintenance="TERMINATE"),
    )
    template = compute_v1.InstanceTemplate(name="s1", properties=properties)
    templates.insert(**AROUND, instance_template_resource=template).result(30)
    groups = client(cloud, compute_v1.InstanceGroupManagersClient)
    group = compute_v1.InstanceGroupManager(
        name="s1",
        instance_template=f"regions/{REGION}/instanceTemplates/s1",
        target_size=2,
        target_size_policy=compute_v1.InstanceGroupManagerTargetSizePolicy(mode="BULK"),
        resource_policies=compute_v1.InstanceGroupManagerResourcePolicies(workload_policy=POLICY),
        instance_lifecycle_policy=compute_v1.InstanceGroupManagerInstanceLifecyclePolicy(
            default_action_on_failure="DO_NOTHING"
        ),
    )
    groups.insert(**HERE, instance_group_manager_resource=group).result(60)
    members = groups.list_managed_instances(**HERE, instance_group_manager="s1")
    assert [each.instance_status for each in members] == ["RUNNING", "RUNNING"]
    shown = groups.get(**HERE, instance_group_manager="s1").status
    assert shown.is_stable
    assert shown.applied_accelerator_topologies[0].state == "ACTIVE"

    with pytest.raises(exceptions.BadRequest, match="is already being used by"):
        policies.delete(**AROUND, resource_policy="s1")
    with pytest.raises(exceptions.BadRequest, match="is already being used by"):
        templates.delete(**AROUND, instance_template="s1")
    groups.delete(**HERE, instance_group_manager="s1").result(60)
    templates.delete(**AROUND, instance_template="s1").result(30)
    policies.delete(**AROUND, resource_policy="s1").result(30)
    for _scope, listed in policies.aggregated_list(project=PROJECT):
        assert not listed.resource_policies


def test_an_instance_by_flex_start(cloud: Emulator) -> None:
    """What gcloud 528 cannot ask for."""
    instances = client(cloud, compute_v1.InstancesClient)
    instance = an_instance(
        "t1",
        "ct6e-standard-4t",
        scheduling=compute_v1.Scheduling(
            provisioning_model="FLEX_START",
            max_run_duration=compute_v1.Duration(seconds=3600),
            instance_termination_action="DELETE",
            automatic_restart=False,
            on_host_maintenance="TERMINATE",
        ),
        params=compute_v1.InstanceParams(
            request_valid_for_duration=compute_v1.Duration(seconds=7200)
        ),
        reservation_affinity=compute_v1.ReservationAffinity(
            consume_reservation_type="NO_RESERVATION"
        ),
    )
    instances.insert(**THERE, instance_resource=instance).result(60)
    found = {
        scope: [each.name for each in listed.instances]
        for scope, listed in instances.aggregated_list(project=PROJECT)
        if listed.instances
    }
    assert found == {f"zones/{V6E}": ["t1"]}
    made = instances.get(**THERE, instance="t1")
    assert (made.status, made.scheduling.provisioning_model) == ("RUNNING", "FLEX_START")
    with pytest.raises(exceptions.Conflict, match="already exists"):
        instances.insert(**THERE, instance_resource=instance)
    instances.delete(**THERE, instance="t1").result(60)
    with pytest.raises(exceptions.NotFound):
        instances.get(**THERE, instance="t1")


def test_what_came_later(cloud: Emulator) -> None:
    """Several instances at once, a group of a region, and a reservation for some days."""
    instances = client(cloud, compute_v1.InstancesClient)
    properties = compute_v1.InstanceProperties(
        machine_type="tpu7x-standard-4t",
        disks=[boot_disk(FOR_7X)],
        network_interfaces=[compute_v1.NetworkInterface(network="global/networks/default")],
    )
    several = compute_v1.BulkInsertInstanceResource(
        count=2, name_pattern="b-##", instance_properties=properties
    )
    instances.bulk_insert(**HERE, bulk_insert_instance_resource_resource=several).result(60)
    assert [each.name for each in instances.list(**HERE)] == ["b-01", "b-02"]

    templates = client(cloud, compute_v1.RegionInstanceTemplatesClient)
    template = compute_v1.InstanceTemplate(name="s1", properties=properties)
    templates.insert(**AROUND, instance_template_resource=template).result(30)
    groups = client(cloud, compute_v1.RegionInstanceGroupManagersClient)
    group = compute_v1.InstanceGroupManager(
        name="s1",
        instance_template=f"regions/{REGION}/instanceTemplates/s1",
        target_size=1,
        target_size_policy=compute_v1.InstanceGroupManagerTargetSizePolicy(mode="BULK"),
        distribution_policy=compute_v1.DistributionPolicy(target_shape="ANY_SINGLE_ZONE"),
        update_policy=compute_v1.InstanceGroupManagerUpdatePolicy(
            instance_redistribution_type="NONE"
        ),
    )
    groups.insert(**AROUND, instance_group_manager_resource=group).result(60)
    (member,) = groups.list_managed_instances(**AROUND, instance_group_manager="s1")
    assert member.instance_status == "RUNNING"
    groups.delete(**AROUND, instance_group_manager="s1").result(60)
    assert list(groups.list(**AROUND)) == []

    futures = client(cloud, compute_v1.FutureReservationsClient)
    chips = compute_v1.AllocationAggregateReservationReservedResourceInfo(
        accelerator=compute_v1.AllocationAggregateReservationReservedResourceInfoAccelerator(
            accelerator_count=4
        )
    )
    week = compute_v1.FutureReservation(
        name="week",
        reservation_mode="CALENDAR",
        planning_status="SUBMITTED",
        time_window=compute_v1.FutureReservationTimeWindow(
            start_time="2036-12-01T00:00:00Z", end_time="2036-12-08T00:00:00Z"
        ),
        aggregate_reservation=compute_v1.AllocationAggregateReservation(
            vm_family="VM_FAMILY_CLOUD_TPU_POD_SLICE_TPU7X", reserved_resources=[chips]
        ),
    )
    futures.insert(**HERE, future_reservation_resource=week).result(30)
    (listed,) = futures.list(**HERE)
    assert listed.status.procurement_status == "APPROVED"


def test_what_is_offered(cloud: Emulator) -> None:
    machines = client(cloud, compute_v1.MachineTypesClient)
    one = machines.get(**HERE, machine_type="tpu7x-standard-4t")
    assert one.accelerators[0].guest_accelerator_type == "tpu7x"
    everywhere = machines.aggregated_list(
        request={"project": PROJECT, "filter": "name=ct5p-hightpu-4t", "max_results": 1}
    )
    zones = [zone for zone, listed in everywhere if listed.machine_types]
    assert zones == ["zones/us-central1-a", "zones/us-east5-a"]
    images = client(cloud, compute_v1.ImagesClient)
    newest = images.get_from_family(project="ubuntu-os-accelerator-images", family=FOR_7X)
    assert newest.disk_size_gb == 10
    reservations = client(cloud, compute_v1.ReservationsClient)
    assert list(reservations.list(**HERE)) == []


def test_an_operation_is_waited_for_where_time_passes() -> None:
    """By itself the library waits at Google, whatever the endpoint of its client is."""
    with Emulator(clock="real") as cloud:
        instances = waits_here(cloud, client(cloud, compute_v1.InstancesClient))
        wanted = an_instance("one", "ct6e-standard-1t")
        begun = instances.insert(**THERE, instance_resource=wanted)
        assert not begun.done()
        begun.result(60)
        one = instances.get(**THERE, instance="one")
        assert one.status == "RUNNING"
        labels = compute_v1.InstancesSetLabelsRequest(
            labels={"a": "b"}, label_fingerprint=one.label_fingerprint
        )
        request = {"instances_set_labels_request_resource": labels}
        instances.set_labels(**THERE, instance="one", **request).result(60)
        assert instances.get(**THERE, instance="one").labels == {"a": "b"}
        instances.delete(**THERE, instance="one").result(60)


def test_every_change_is_done_at_once_where_time_is_immediate(cloud: Emulator) -> None:
    instances = client(cloud, compute_v1.InstancesClient)
    wanted = an_instance("one", "ct6e-standard-1t")
    assert instances.insert(**THERE, instance_resource=wanted).done()
    here = {**THERE, "instance": "one"}

    def now() -> Any:
        return instances.get(**here)

    labels = compute_v1.InstancesSetLabelsRequest(
        labels={"a": "b"}, label_fingerprint=now().label_fingerprint
    )
    done = [instances.set_labels(**here, instances_set_labels_request_resource=labels)]
    metadata = compute_v1.Metadata(fingerprint=now().metadata.fingerprint)
    done.append(instances.set_metadata(**here, metadata_resource=metadata))
    tags = compute_v1.Tags(items=["t"], fingerprint=now().tags.fingerprint)
    done.append(instances.set_tags(**here, tags_resource=tags))
    done.append(instances.reset(**here))
    done.append(instances.stop(**here))
    scheduling = compute_v1.Scheduling(provisioning_model="SPOT", automatic_restart=False)
    done.append(instances.set_scheduling(**here, scheduling_resource=scheduling))
    done.append(instances.start(**here))
    done.append(instances.delete(**here))
    assert [operation.done() for operation in done] == [True] * 8
