"""Objects that one with write access to the bucket may have put there, drawn from a seed."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._queue import claims, objects

DEFINITION = objects.Definition(
    name="lr-1",
    person="alice",
    user="lab",
    command=("python", "train.py"),
    venv="jax",
    submitted_at=1764413259.5,
    secrets=("wandb",),
    types=("v4-8",),
    after=("lr-0",),
    options={"hang_after": "10m", "no_retry_exit_codes": [2]},
    sweep="lr",
    at_once=2,
    parameters={"lr": "1e-3"},
)
OWNER = objects.Owner("pair", "us-central2-b", "v4-8", 4, "n-1", "b-1")
WAITS = replace(objects.of_definition(DEFINITION, 3, "0" * 32, 1764413260.0), after=())
RUNS = claims.claimed(WAITS, OWNER, "1" * 32, 1764413270.0)
ENDED = claims.finished(RUNS, claims.Outcome(objects.FAILED, "exit 1", 1), "2" * 32, 1764413280.0)
WISH = objects.Wish("lr-1", "bob", 1, 1764413290.0, "median 0.4")
PROGRESS = objects.Progress(7, 0.25)

# What a value may be replaced by, as JSON.
VALUES = [
    *("null", "true", "-1", "1e400", "NaN", "-Infinity", "1" * 3000, "0.1", "-0.0", "{}", "[]"),
    *('""', '"\\u0000"', '"\\ud800"', '"\\u202e"', '"../../etc/passwd"', '"a\\nb"', '"-rf"'),
    *('"\\uff11"', '"running"', '"root"', '"' + "a" * 5000 + '"', '"$(reboot)"', '"9"'),
    *("[" * 2000 + "]" * 2000, "[null]", '[["a"]]', '["a","a"]', '{"a":{"b":[]}}', "1764413260"),
    "[" * 50_000,
    json.dumps([f"n{number}" for number in range(200)]),
]
DOING = objects.Doing("pair", "builds environment jax", 1764413000.0, 1764413100.0, "lr-1", "jax")
NAMES = [
    *("runs/lr-1", "runs/", "runs/../x", "runs/a b", "runs/" + "x" * 900, "runs/%2e%2e", "runs/é"),
    *("waiting/9/000000003/alice/lr-1", "waiting/9/000000003/alice/", "waiting/x", "waiting//"),
    *("waiting/9/000000001/bob/good-1", "waiting/٩/000000003/alice/lr-1", "waiting/0/1/a/b/c"),
    *("running/alice/lr-1/1", "running/alice/lr-1/x", "running/alice//", "running/alice/good-1/9"),
    *("stop/lr-1", "stop/good-1", "stop/", "stop/a/b", "bell", "definitions/x", "code/x.tar.gz"),
    *("slices/pair", "slices/", "slices/a/b"),
]


def texts() -> list[str]:
    """Return the text of one object of each kind."""
    definition = objects.definition_text(DEFINITION)
    signed = objects.signed_bytes(objects.Signed(definition, "signature")).decode()
    states = [objects.run_text(run) for run in (WAITS, RUNS, ENDED)]
    doing = objects.doing_bytes(DOING).decode()
    others = [objects.wish_bytes(WISH).decode(), objects.progress_text(PROGRESS)]
    return [definition, signed, *states, *others, doing]


def spoilt(chance: random.Random, text: str) -> bytes:
    """Return a text that is wrong in one or more ways, or another one that is right."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        text = chance.choice((_bytes, _value, _value, _value, _key, _cut, _twice))(chance, text)
    return text.encode("utf-8", "surrogatepass")


def _bytes(chance: random.Random, text: str) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chr(chance.choice((0, 10, 34, 92, 125, 255, 8238, 55296))) + text[at + 1 :]


def _cut(chance: random.Random, text: str) -> str:
    return text[: chance.randrange(len(text) + 1)]


def _twice(chance: random.Random, text: str) -> str:
    return text + chance.choice((text, " ", "\n", "\0", "{}"))


def _fields(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(found: Any) -> str:
    return json.dumps(found, sort_keys=True, separators=(",", ":"))


def _value(chance: random.Random, text: str) -> str:
    """Put another value into a field, or into one of its owner."""
    found = _fields(text)
    if not found:
        return text
    keys = [key for key in sorted(found) if len(key) < 30]
    key = chance.choice(keys) if keys else "name"
    inner = found[key]
    if isinstance(inner, dict) and inner and chance.random() < 0.7:
        inner = {**inner, chance.choice(sorted(inner)): "@@"}
    else:
        inner = "@@"
    return _text({**found, key: inner}).replace('"@@"', chance.choice(VALUES))


def _key(chance: random.Random, text: str) -> str:
    found = _fields(text)
    if not found:
        return text
    if chance.random() < 0.5:
        found.pop(chance.choice(sorted(found)))
    else:
        found[chance.choice(("", "a" * 9000, "\x1b[2J", "__class__", "Name"))] = 1
    return _text(found)
