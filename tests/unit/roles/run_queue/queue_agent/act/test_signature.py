"""The signature under a definition, as ssh-keygen itself verifies it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from queue_agent.act.signature import trouble
from submitters import Person, objects


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> tuple[Person, Person, Path]:
    folder = tmp_path_factory.mktemp("people")
    alice, eve = Person(folder, "alice"), Person(folder, "eve")
    signers = folder / "allowed_signers"
    signers.write_text(alice.signer + eve.signer)
    return alice, eve, signers


def test_only_the_persons_own_signature_under_this_very_text(
    people: tuple[Person, Person, Path],
) -> None:
    alice, eve, signers = people
    one = objects.Definition("one", "alice", "alice", ("true",), "", 1.0)
    signed = alice.signed(one)
    assert trouble(signed, "alice", signers) == ""
    assert trouble(signed, "eve", signers)
    assert trouble(signed, "bob", signers)
    assert trouble(eve.signed(one), "alice", signers)
    assert trouble(replace(signed, signed=signed.signed.replace("true", "evil")), "alice", signers)
    assert trouble(replace(signed, signature=""), "alice", signers)
    assert trouble(replace(signed, signature="-" * 9000), "alice", signers)


def test_a_signature_for_something_else_is_none(people: tuple[Person, Person, Path]) -> None:
    alice, _eve, signers = people
    signed = alice.signed(objects.Definition("one", "alice", "alice", ("true",), "", 1.0))
    other = signers.with_name("other")
    other.write_text(signers.read_text().replace("tpu-fleet-queue", "git"))
    assert trouble(signed, "alice", other)
    assert trouble(signed, "alice", signers.with_name("none"))
