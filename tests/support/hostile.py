"""What a worker in other hands may answer: an honest answer, spoilt by a seed."""

from __future__ import annotations

import copy
import json
import random
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENDLESS = "endless"
SLOW = "slow"
CUT = "cut"

# What the module drill honestly says of a run that goes on.
DRILLED: dict[str, Any] = {
    "changed": False,
    "look": {
        "now": 5.0,
        "machine_boot_id": "b",
        "boot_id": "b",
        "state": "running",
        "reason": "",
        "attempt": 1,
        "start": 1.0,
        "pid": 7,
        "parent": 6,
        "program_alive": True,
        "agent_pid": 5,
        "agent_alive": True,
        "agent_since": 1.0,
        "first_step": 1,
        "first_step_at": 2.0,
        "step": 4,
        "told_step": 4,
        "saved_at": 3.0,
        "history": [],
        "harm": False,
    },
    "skip": "",
}


@dataclass(frozen=True)
class Said:
    """What is sent, and how it ends."""

    what: str
    """The kind of nonsense, for the report of a failure."""
    data: bytes
    ends: str = ""


KINDS = {
    "colours and cursor": "\x1b[31m\x1b[2J\x1b[1;1H",
    "title": "\x1b]0;pwned\x07",
    "link": "\x1b]8;;https://evil.example/\x1b\\ok\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;cHduZWQ=\x07",
    "device control": "\x1bP+q544e\x1b\\",
    "one-byte controls": "\x9b2J\x9d0;pwned\x9c",
    "direction": "\u202etxt.exe\u2066x\u2069",
    "markup": "</script><script>alert(1)</script><img src=x onerror=alert(1)>",
    "rich markup": "[red]x[/red][/x][link=file:///etc/passwd]y[/link]:smile:",
    "template": "{{ lookup('pipe', 'id') }}",
    "statement of a template": "{% set x = lookup('pipe', 'id') %}{# x #}",
    "another key": "x\nfleet_allocations: unrestricted\n- y",
    "carriage return": "ok\rforged",
    "separators": "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg",
    "zero width": "a\u200b\ufeff\u2060b\u200d",
    "no UTF-8": "\udcff\ud800",
    "NUL": "x\x00y",
    "YAML": "a: &x [*x, !!python/name:os.system] # \"'",
    "very long": "A" * 10_000,
}
"""What an attacker may put where a text is shown, or written into a file, by kinds."""


def texts(canary: Path) -> list[str]:
    """Return texts that do harm where they are used unread; each would make the canary."""
    touch = f"touch {canary}"
    return [
        f"$({touch})",
        f"`{touch}`",
        f"; {touch};",
        f"'\"; {touch} #",
        f"x\nHost *\n  ProxyCommand {touch}\nHost y",
        f"8888 127.0.0.1:8888\n  ProxyCommand {touch}\nMatch all\n  ProxyCommand {touch}\n#",
        f"{{{{ lookup('pipe', '{touch}') }}}}",
        f"{{% set x = lookup('pipe', '{touch}') %}}",
        f"-oProxyCommand={touch}",
        f"-e {touch}",
        "--rsync-path=sh",
        "../../../../victim",
        "../" * 20 + str(canary).lstrip("/"),
        str(canary),
        f"results/../../{canary.name}",
        "/etc/passwd",
        "~/.ssh/authorized_keys",
        "-e",
        "..",
        ".",
        "",
        "[/x]",
        *KINDS.values(),
        "\x00",
        "\n\n\n",
        "x\nhonest: forged",
        "__class__",
        "None",
        "localhost",
        "A" * 100_000,
        "\U0001f600" * 300,
    ]


VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1 << 70,
    10**400,
    0.5,
    1e300,
    float("inf"),
    float("nan"),
    [],
    {},
    [[[]]],
    [None],
    {"": ""},
    {"__ansible_unsafe": "x"},
    {"__ansible_vault": "x"},
    [1, "a", None, {}],
]


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the ways to all values inside of a value."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [at, *(place for key, one in inner for place in places(one, (*at, key)))]


def spoilt(honest: Any, chance: random.Random, canary: Path) -> tuple[str, Any]:
    """Return an answer with one to three faults, and what they are."""
    answer, faults = copy.deepcopy(honest), []
    for _fault in range(chance.choice((1, 1, 1, 2, 3))):
        way = chance.choice([place for place in places(answer) if place] or [()])
        if not way:
            return "whole", chance.choice([*texts(canary), *VALUES])
        holder = answer
        for key in way[:-1]:
            holder = holder[key]
        kind = chance.choice(("text", "text", "text", "type", "missing", "more", "many"))
        faults.append(f"{kind} at {way}")
        if kind == "text":
            holder[way[-1]] = chance.choice(texts(canary))
        elif kind == "type":
            holder[way[-1]] = chance.choice(VALUES)
        elif kind == "missing":
            del holder[way[-1]]
        elif kind == "many":
            holder[way[-1]] = [holder[way[-1]]] * 300
            break
        elif isinstance(holder, dict):
            name = chance.choice([*texts(canary), "ansible_facts", "add_host", "event", "tail"])
            holder[name] = chance.choice([*texts(canary), *VALUES])
        else:
            holder.append(chance.choice([*texts(canary), *VALUES]))
    return "; ".join(faults), answer


def poisoned(honest: Any, chance: random.Random, canary: Path) -> Any:
    """Return an answer with one text replaced by one that does harm where it is used unread."""
    answer = copy.deepcopy(honest)
    found = []
    for way in places(answer):
        holder: Any = answer
        for key in way:
            holder = holder[key]
        if way and isinstance(holder, str):
            found.append(way)
    if not found:
        return chance.choice(texts(canary)[:17])
    *before, last = chance.choice(found)
    holder = answer
    for key in before:
        holder = holder[key]
    holder[last] = chance.choice(texts(canary)[:17])
    return answer


def written(answer: Any, chance: random.Random) -> bytes:
    """Write an answer as JSON, sometimes with bytes that are no UTF-8."""
    text = json.dumps(answer, ensure_ascii=chance.random() < 0.5).encode(errors="surrogatepass")
    if chance.random() < 0.1:
        at = chance.randrange(len(text))
        text = text[:at] + bytes(chance.randrange(128, 256) for _ in range(3)) + text[at:]
    return text


def nonsense(chance: random.Random, canary: Path) -> tuple[str, bytes]:
    """Return what is no JSON of the kind that was asked for."""
    return chance.choice(
        [
            ("nothing", b""),
            ("no JSON", chance.choice(texts(canary)).encode(errors="replace")),
            ("bytes", chance.randbytes(300)),
            ("a megabyte", b"[" + b'"%s",' % (b"A" * 9_997) * 100 + b'""]'),
            ("a megabyte of a line", b"A" * (1 << 20)),
            ("deep", b"[" * 100_000),
            ("half", b'{"runs": ['),
            ("a list", b"[]"),
            ("a number", b"7"),
            ("digits", b"9" * 10_000),
            ("another document", b"{}\n{}\n"),
        ]
    )


def said(
    honest: Any,
    number: int,
    seed: int,
    canary: Path,
    frame: Callable[[bytes], bytes] = lambda data: data,
) -> Said:
    """Return case `number` of a question whose honest answer is known."""
    chance = random.Random(f"{seed} {number}")  # noqa: S311 - repeatable, not secret
    kind = chance.random()
    if kind < 0.02:
        return Said("slow", b"", SLOW)
    if kind < 0.04:
        return Said("endless", chance.randbytes(1000).replace(b"\n", b"A"), ENDLESS)
    if kind < 0.05:
        return Said("endless lines", frame(json.dumps(honest).encode()) + b"\n", ENDLESS)
    if kind < 0.07:
        data = frame(json.dumps(honest).encode())
        return Said("cut", data[: len(data) // 2], CUT)
    if kind < 0.2:
        what, data = nonsense(chance, canary)
        return Said(what, frame(data))
    what, answer = spoilt(honest, chance, canary)
    return Said(what, frame(written(answer, chance)))


def controls(text: str, allowed: str = "\n") -> list[str]:
    """Return what steers a terminal or hides in a text."""
    bad = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return [
        f"{ord(char):#x} in {text[max(0, at - 40) : at + 20]!r}"
        for at, char in enumerate(text)
        if char not in allowed and unicodedata.category(char) in bad
    ]


def snapshot(*folders: Path) -> dict[str, Any]:
    """Return all that is in folders: kinds, modes, contents."""
    found: dict[str, Any] = {}
    for folder in folders:
        for path in sorted([folder, *folder.rglob("*")]):
            told = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            found[str(path)] = (told.st_mode, content)
    return found
