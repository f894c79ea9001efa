"""Only workers with the key ask, and are answered."""

from __future__ import annotations

from ansible_collections.tpu.fleet.plugins.module_utils._host import slice_proof as proof


def test_a_question_is_for_one_path_and_one_key() -> None:
    asked = proof.asking("key", "/a")
    assert proof.may_ask("key", "/a", asked)
    assert not proof.may_ask("key", "/b", asked)
    assert not proof.may_ask("other", "/a", asked)
    assert not proof.may_ask("", "/a", proof.asking("", "/a"))
    assert not proof.may_ask("key", "/a", {})
    assert not proof.may_ask("key", "/a", {**asked, proof.PROOF: "é"})


def test_an_answer_is_for_one_question() -> None:
    asked, again = proof.asking("key", "/a"), proof.asking("key", "/a")
    said = proof.answering("key", b"body", asked)[proof.PROOF]
    assert proof.is_answer("key", b"body", asked, said)
    assert not proof.is_answer("key", b"other", asked, said)
    assert not proof.is_answer("key", b"body", again, said)
