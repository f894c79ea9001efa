"""What is wrong with fleet_notify, and that no secret is shown."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.notify import check_notify

HOOK = {"webhook": "https://example.org/hook"}
MAIL = {"to": ["a@example.org"], "from": "b@example.org", "server": "s"}


def fields(*given: dict[str, Any], **more: Any) -> list[str]:
    problems = check_notify({"fleet_notify": list(given), **more})
    return [problem.field.removeprefix("fleet_notify") for problem in problems]


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        (HOOK, []),
        ({"webhook_file": "~/hook", "format": "ntfy", "token_file": "~/t"}, []),
        ({"command": "true", "events": ["failed"], "lines": 0, "per_hour": 1}, []),
        ({"mail": MAIL}, []),
        ({"apprise": "discord://hush/hush"}, []),
        ({"apprise_file": "~/apprise", "lines": 0}, []),
        ({"apprise": "{{ vault_discord }}"}, []),
        ({"apprise": "hush"}, ["[0].apprise"]),
        ({"apprise": "json://hush", "apprise_file": "~/a"}, ["[0]"]),
        ({"apprise": "json://hush", "token": "hush"}, ["[0].token"]),
        ({"mail": {**MAIL, "user": "u", "password": "x"}}, []),
        ({}, ["[0]"]),
        ({**HOOK, "command": "true"}, ["[0]"]),
        ({"webhook": "example.org/hush"}, ["[0].webhook"]),
        ({**HOOK, "format": "teams"}, ["[0].format"]),
        ({"command": "true", "format": "slack"}, ["[0].format"]),
        ({**HOOK, "token": "hush", "token_file": "~/t"}, ["[0].token_file"]),
        ({"command": "true", "token": "hush"}, ["[0].token"]),
        ({**HOOK, "events": ["dead"]}, ["[0].events[0]"]),
        ({**HOOK, "per_hour": 0, "lines": -1}, ["[0].lines", "[0].per_hour"]),
        ({**HOOK, "hush": "x"}, ["[0].hush"]),
        ({"mail": {}}, ["[0].mail.to", "[0].mail.from", "[0].mail.server"]),
        ({"mail": {**MAIL, "to": ["alice"]}}, ["[0].mail.to"]),
        ({"mail": {**MAIL, "password": "hush"}}, ["[0].mail.user"]),
        ({"mail": {**MAIL, "user": "u", "password": "hush", "password_file": "~/p"}},
         ["[0].mail.password_file"]),
        ({"mail": {**MAIL, "port": "587"}}, ["[0].mail.port"]),
    ],
)  # fmt: skip
def test_what_is_wrong(entry: dict[str, Any], wrong: list[str]) -> None:
    assert fields(entry) == wrong


def test_an_entry_knows_the_slices_and_has_a_name_of_its_own() -> None:
    slices = [{"name": "pair"}]
    assert fields({**HOOK, "slices": ["pear"]}, fleet_slices=slices) == ["[0].slices[0]"]
    assert fields({**HOOK, "slices": ["pair"]}, fleet_slices=slices) == []
    assert fields({**HOOK, "name": "a"}, {**HOOK, "name": "a"}) == ["[1].name"]


def test_no_secret_is_shown() -> None:
    mail = {**MAIL, "password": 5, "pasword": "hush"}
    entries = [
        {"webhook": "hush"},
        {"webhok": "https://hush"},
        {"mail": mail},
        {**HOOK, "token": 7},
    ]
    text = " ".join(map(str, check_notify({"fleet_notify": entries})))
    assert "hush" not in text
    assert "5" not in text.replace("fleet_notify", "")
    entries = [{"apprise": "hush"}, {"aprise": "json://hush"}, {"apprise": ["hush"]}]
    assert "hush" not in " ".join(map(str, check_notify({"fleet_notify": entries})))
