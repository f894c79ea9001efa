"""The owner of each address."""

from __future__ import annotations

import re

import pytest
from clouds import a_cloud

from tpu_local_cloud.machines.none import NoMachines
from tpu_local_cloud.model.shared.addresses import AddressBook
from tpu_local_cloud.model.shared.records import NodeRecord


@pytest.fixture
def book() -> AddressBook:
    return AddressBook(NoMachines())


def a_node(book: AddressBook, workers: int = 2, nics: int = 1) -> NodeRecord:
    body = {"networkConfigs": [{"enableExternalIps": True}, *[{}] * (nics - 1)]}
    node = NodeRecord("us-central2-b", "n1", body)
    book.equip(node, workers)
    return node


def external(node: NodeRecord) -> list[str | None]:
    return [machine["external_ip"] for machine in node.machines]


def test_a_worker_is_found_by_its_internal_address_alone(book: AddressBook) -> None:
    node = a_node(book)
    assert book.worker_at(node.machines[1]["internal_ip"]) == (node.key, 1)
    assert book.worker_at(node.machines[1]["external_ip"]) is None


def test_a_node_takes_addresses_and_gives_them_all_back(book: AddressBook) -> None:
    node = a_node(book, nics=2)
    addresses = [m["internal_ip"] for m in node.machines] + [a for n in node.extra_nics for a in n]
    assert len(set(addresses)) == 4
    assert not book.is_empty()
    book.release(node)
    assert book.is_empty()


def test_addresses_of_a_node_from_the_store_are_not_taken_again() -> None:
    stored = a_node(AddressBook(NoMachines()))
    book = AddressBook(NoMachines())
    book.enter(stored)
    made = a_node(book)
    for kind in ("internal_ip", "external_ip"):
        assert not {m[kind] for m in stored.machines} & {m[kind] for m in made.machines}


def test_external_addresses_are_only_for_those_who_want_them(book: AddressBook) -> None:
    node = NodeRecord("us-central2-b", "n1", {"networkConfig": {"network": "default"}})
    book.equip(node, 2)
    assert external(node) == [None, None]


def test_another_external_address_differs_and_frees_the_old_one(book: AddressBook) -> None:
    node = a_node(book)
    first, second = external(node)
    book.change_external(node, [1], True)
    assert external(node)[0] == first
    assert external(node)[1] not in (None, first, second)
    assert not book.has_external(str(second))


def test_no_external_address_and_a_wanted_one(book: AddressBook) -> None:
    node = a_node(book)
    first, second = external(node)
    book.change_external(node, [0, 1], None)
    assert external(node) == [None, None]
    book.change_external(node, [0], str(second))
    assert external(node) == [second, None]
    assert (book.has_external(str(first)), book.has_external(str(second))) == (False, True)


@pytest.mark.parametrize("event", ["restart", "maintenance"])
def test_a_node_without_external_addresses_gets_none_by_and_by(event: str) -> None:
    cloud = a_cloud()
    body = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}
    cloud.create("us-central2-b", "inside", body, "v2")
    if event == "restart":
        cloud.stop("us-central2-b", "inside", "v2")
        cloud.start("us-central2-b", "inside", "v2")
    else:
        cloud.maintain("us-central2-b", "inside", [0], "v2alpha1")
    node = cloud.node("us-central2-b", "inside")
    assert (node.state, node.machines[0]["external_ip"]) == ("READY", None)


def test_instances_are_called_as_they_are_unless_another_is() -> None:
    book = AddressBook(NoMachines())
    here, there = NodeRecord("z", "one", {}), NodeRecord("y", "one", {})
    book.equip(here, 1, ["one"])
    book.equip(there, 1, ["one"])
    assert here.machines[0]["machine_id"] == "one"
    other = there.machines[0]["machine_id"]
    assert re.fullmatch(r"one-[0-9a-f]{4}", other)
    book.release(here)
    again = NodeRecord("z", "one", {})
    book.equip(again, 1, ["one"])
    assert again.machines[0]["machine_id"] == "one"


@pytest.mark.parametrize("name", ["agent", "delay", "hub", "keeper", "small-common"])
def test_an_instance_is_not_taken_for_a_helper_of_the_machines(name: str) -> None:
    node = NodeRecord("z", name, {})
    AddressBook(NoMachines()).equip(node, 1, [name])
    assert node.machines[0]["machine_id"] != name
