"""What is wrong with fleet_notify, and that no secret is shown."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.notify import (
    check_notify,
    password_in_clear,
)

HOOK = {"apprise": "jsons://example.org/hook"}
MAIL = {"to": ["a@example.org"], "from": "b@example.org", "server": "s"}


def fields(*given: dict[str, Any], **more: Any) -> list[str]:
    problems = check_notify({"fleet_notify": list(given), **more})
    return [problem.field.removeprefix("fleet_notify") for problem in problems]


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        (HOOK, []),
        ({"command": "true", "events": ["failed"], "lines": 0, "per_hour": 1}, []),
        ({"apprise": "discord://hush/hush"}, []),
        ({"apprise_file": "~/apprise", "lines": 0}, []),
        ({"apprise": "{{ vault_discord }}"}, []),
        ({"apprise": "hush"}, ["[0].apprise"]),
        ({"apprise": "json://hush", "apprise_file": "~/a"}, ["[0]"]),
        ({"apprise": "mailtos://u:hush@example.org"}, []),
        ({"apprise": "mailto://u:hush@example.org"}, ["[0].apprise"]),
        ({}, ["[0]"]),
        ({**HOOK, "command": "true"}, ["[0]"]),
        ({**HOOK, "events": ["dead"]}, ["[0].events[0]"]),
        ({**HOOK, "per_hour": 0, "lines": -1}, ["[0].lines", "[0].per_hour"]),
        ({**HOOK, "hush": "x"}, ["[0].hush"]),
    ],
)
def test_what_is_wrong(entry: dict[str, Any], wrong: list[str]) -> None:
    assert fields(entry) == wrong


@pytest.mark.parametrize(
    ("entry", "field", "remedy"),
    [
        ({"webhook": "https://hush"}, "webhook", "Write apprise, with the address jsons://HOST/"),
        ({"webhook_file": "~/hook"}, "webhook_file", "Write apprise_file, with the address jsons:"),
        ({"webhook": "https://hush", "format": "slack"}, "webhook", "slack://A/B/C"),
        ({"webhook_file": "~/hook", "format": "ntfy", "token_file": "~/t"}, "webhook_file",
         "ntfys://TOKEN@HOST/TOPIC"),
        ({"webhook": "https://hush", "token": "hush", "format": 7}, "webhook",
         "+Authorization=Bearer%20TOKEN"),
        ({"command": "true", "format": "slack"}, "format", "slack://"),
        ({"command": "true", "token": "hush"}, "token", "jsons://"),
        ({"mail": {**MAIL, "user": "u", "password": "hush"}}, "mail",
         "mailtos://USER:PASSWORD@example.org?smtp=s&port=587&from=b@example.org&to=a@example.org"),
        ({"mail": {**MAIL, "security": "tls"}}, "mail",
         "mailtos://example.org?smtp=s&port=465&mode=ssl&from="),
        ({"mail": {**MAIL, "security": "none", "port": 26}}, "mail",
         "mailto://example.org?smtp=s&port=26&from="),
        ({"mail": {}}, "mail", "mailtos://FROM?smtp=SERVER&port=587&from=FROM&to=TO"),
        ({"mail": "hush"}, "mail", "jsons://"),
    ],
)  # fmt: skip
def test_what_apprise_has_replaced(entry: dict[str, Any], field: str, remedy: str) -> None:
    [problem] = check_notify({"fleet_notify": [entry]})
    assert problem.field == f"fleet_notify[0].{field}"
    assert remedy in str(problem)
    assert "https://appriseit.com/services/" in str(problem)
    assert "hush" not in str(problem)


@pytest.mark.parametrize(
    ("address", "clear"),
    [
        ("mailto://u:hush@example.org", True),
        ("mailto://u@example.org?pass=hush", True),
        ("mailtos://u:hush@example.org?mode=insecure", True),
        ("mailto://u:hush@example.org?smtp=127.0.0.1", False),
        ("mailto://u:hush@example.org?mode=ssl", False),
        ("mailtos://u:hush@example.org", False),
        ("mailto://example.org?smtp=s", False),
        ("json://u:hush@example.org", False),
        ("mailto://u:hush@[", False),
    ],
)
def test_passwords_of_mails_are_encrypted(address: str, clear: bool) -> None:
    assert password_in_clear(address) is clear


def test_an_entry_knows_the_slices_and_has_a_name_of_its_own() -> None:
    slices = [{"name": "pair"}]
    assert fields({**HOOK, "slices": ["pear"]}, fleet_slices=slices) == ["[0].slices[0]"]
    assert fields({**HOOK, "slices": ["pair"]}, fleet_slices=slices) == []
    assert fields({**HOOK, "name": "a"}, {**HOOK, "name": "a"}) == ["[1].name"]


def test_no_secret_is_shown() -> None:
    old: list[dict[str, Any]] = [
        {"webhook": "hush"},
        {"mail": {**MAIL, "password": 5, "pasword": "hush"}},
        {"webhook": "https://x", "token": 7},
    ]
    text = " ".join(map(str, check_notify({"fleet_notify": old})))
    assert "hush" not in text
    assert "5" not in text.replace("fleet_notify", "").replace("587", "")
    entries = [{"apprise": "hush"}, {"aprise": "json://hush"}, {"apprise": ["hush"]}]
    assert "hush" not in " ".join(map(str, check_notify({"fleet_notify": entries})))
