"""Whose address is whose."""

from __future__ import annotations

import pytest

from tpu_fleet.cloud.addresses import AddressBook
from tpu_fleet.cloud.machines.none import NoMachines
from tpu_fleet.cloud.records import NodeRecord


@pytest.fixture
def book() -> AddressBook:
    return AddressBook(NoMachines())


def a_node(book: AddressBook, workers: int = 2, nics: int = 1) -> NodeRecord:
    node = NodeRecord("us-central2-b", "n1", {})
    for worker in range(workers):
        node.machines.append(
            {
                "machine_id": f"m-{worker}",
                "internal_ip": book.take_internal(),
                "external_ip": book.take_external(),
            }
        )
        node.extra_nics.append([book.take_internal() for _ in range(nics - 1)])
    book.enter(node)
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
    node = a_node(AddressBook(NoMachines()))
    book = AddressBook(NoMachines())
    book.enter(node)
    assert book.take_internal() not in [m["internal_ip"] for m in node.machines]
    assert book.take_external() not in external(node)


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
