"""What looks like a secret is left out of evidence, and nothing else is."""

from __future__ import annotations

import time

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._evidence.secrets import without_secrets

HEX = "0123456789abcdef" * 3


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"python t.py --api-key={HEX} --lr 3", "python t.py --api-key=*** --lr 3"),
        (f"python t.py --wandb_api_key {HEX} -v", "python t.py --wandb_api_key *** -v"),
        (
            "env HF_TOKEN=abc WANDB_API_KEY='x y' python t.py",
            "env HF_TOKEN=*** WANDB_API_KEY=*** python t.py",
        ),
        ('{"password": "pass word", "n": 3}', '{"password": ***, "n": 3}'),
        ("mysql://alice:hunter2@db/x", "mysql://***@db/x"),
        ("Authorization: Bearer abcdefgh.ijkl", "Authorization: Bearer ***"),
        ("got Bearer abcdefgh1234", "got Bearer ***"),
        ("error for hf_abcdefghijklmnopqrst: 403", "error for ***: 403"),
        ("ya29.a0AfH6SMBx-123456 expired", "*** expired"),
        ("ghp_" + "a" * 36, "***"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.sig-", "***"),
        ("-----BEGIN RSA PRIVATE KEY----- MIIE", "***"),
        ("credentials: /home/alice/key.json", "credentials: ***"),
    ],
)
def test_what_looks_like_a_secret_is_left_out(text: str, left: str) -> None:
    found = without_secrets(text)
    assert found == left
    assert without_secrets(found) == found


@pytest.mark.parametrize(
    "text",
    [
        "python train.py --max-tokens 512 --tokenizer=bert --author alice",
        "KeyError: 'label'",
        '  File "/home/alice/keys.py", line 3, in tokenize',
        "https://storage.googleapis.com/b/o?alt=json",
        "ValueError: not enough values to unpack (expected 2, got 1)",
        "a" * 40,
        "monkey=3 keyboard: yes",
    ],
)
def test_the_rest_stays(text: str) -> None:
    assert without_secrets(text) == text


def test_a_long_line_takes_no_long_time() -> None:
    started = time.process_time()
    for text in ("_key" * 300, "token-" * 200, "a" * 1200, "--key " * 200, "x://" * 300):
        without_secrets(text)
    assert time.process_time() - started < 1.0
