"""Settings in files of others: only our part of them changes, and comes back."""

from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.work import units_shown
from ansible_collections.tpu.fleet.plugins.module_utils._roles.host_base import settings as rules

IMAGE = 'PATH="/usr/bin"\nLD_PRELOAD="/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4"\nA=b\n'


class TestTcmalloc:
    def test_its_line_becomes_a_comment(self) -> None:
        text = rules.without_tcmalloc(IMAGE)
        assert "LD_PRELOAD" not in [line.partition("=")[0] for line in text.splitlines()]
        assert text.startswith('PATH="/usr/bin"\n')
        assert text.endswith("A=b\n")
        assert rules.without_tcmalloc(text) == text
        assert rules.with_tcmalloc(text) == IMAGE

    @pytest.mark.parametrize("separator", [":", " "])
    def test_other_libraries_stay(self, separator: str) -> None:
        image = f"export LD_PRELOAD=/a/libtcmalloc_minimal.so.4{separator}/b/libmine.so\n"
        text = rules.without_tcmalloc(image)
        assert 'LD_PRELOAD="/b/libmine.so"\n' in text
        assert rules.with_tcmalloc(text) == image

    @pytest.mark.parametrize(
        "text", ["", "A=b\n", "LD_PRELOAD=/b/libmine.so\n", "# LD_PRELOAD=/a/libtcmalloc.so\n"]
    )
    def test_everything_else_is_left_alone(self, text: str) -> None:
        assert rules.without_tcmalloc(text) == text
        assert rules.with_tcmalloc(text) == text

    def test_what_was_added_since_stays(self) -> None:
        text = rules.without_tcmalloc(IMAGE) + "NEW=1\n"
        assert rules.with_tcmalloc(text) == IMAGE + "NEW=1\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "LANG=de_AT.UTF-8\n"),
        ("LANG=C.UTF-8\nLC_TIME=C\n", "LANG=de_AT.UTF-8\nLC_TIME=C\n"),
        ("# x\nLANG=a\nLANG=b\n", "# x\nLANG=de_AT.UTF-8\n"),
        ('LANG="de_AT.UTF-8"\n', 'LANG="de_AT.UTF-8"\n'),
    ],
)
def test_lang(before: str, after: str) -> None:
    assert rules.with_lang(before, "de_AT.UTF-8") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "de_AT.UTF-8 UTF-8\n"),
        ("# de_AT.UTF-8 UTF-8\n# x\n", "de_AT.UTF-8 UTF-8\n# x\n"),
        ("de_AT.UTF-8 UTF-8\n", "de_AT.UTF-8 UTF-8\n"),
        ("en_US.UTF-8 UTF-8\n", "en_US.UTF-8 UTF-8\nde_AT.UTF-8 UTF-8\n"),
    ],
)
def test_generated(before: str, after: str) -> None:
    assert rules.with_generated(before, "de_AT.UTF-8") == after


def test_locales_that_are_there() -> None:
    assert rules.is_there("C.UTF-8", [])
    assert rules.is_there("de_AT.UTF-8", ["C", "de_AT.utf8"])
    assert not rules.is_there("de_AT.UTF-8", ["C", "de_DE.utf8"])


class TestUnits:
    ON = "Id=a.timer\nUnitFileState=enabled\nActiveState=active\n"
    OFF = "Id=a.timer\nUnitFileState=disabled\nActiveState=inactive\n"

    @pytest.mark.parametrize(
        ("on", "shown", "verb"),
        [
            (True, ON, ""),
            (True, OFF, "enable"),
            (False, ON, "disable"),
            (False, OFF, ""),
            (True, "", "enable"),
            (False, "", ""),
        ],
    )
    def test_steps(self, on: bool, shown: str, verb: str) -> None:
        steps = rules.unit_steps([rules.Unit("a.timer", on)], units_shown(shown))
        assert [step[1] for step in steps] == ([verb] if verb else [])

    def test_limits_as_systemd_tells_them(self) -> None:
        text = "[Manager]\nDefaultLimitNOFILE=10\nDefaultLimitSTACK=64K:infinity\n"
        assert rules.default_limits(text) == {
            "DefaultLimitNOFILE": "10",
            "DefaultLimitNOFILESoft": "10",
            "DefaultLimitSTACK": "infinity",
            "DefaultLimitSTACKSoft": "65536",
        }

    @pytest.mark.parametrize(
        ("since", "written", "stale"),
        [
            ("100000000", 1099.0, False),
            ("100000000", 1100.5, True),
            ("100500000", 1100.4, False),
            ("0", 1101.0, False),
            ("", 1101.0, False),
            (None, 1.0, False),
            ("100000000", None, False),
        ],
    )
    def test_who_began_before_its_configuration(
        self, since: str | None, written: float | None, stale: bool
    ) -> None:
        assert rules.is_stale(rules.wall_time(since, 1000.0), written) is stale


@pytest.mark.parametrize(
    ("held", "wanted", "verb"),
    [
        ("forever\n", True, None),
        ("", True, "set"),
        ("2026-01-01", True, "set"),
        ("forever", False, "unset"),
        ("", False, None),
    ],
)
def test_snaps(held: str, wanted: bool, verb: str | None) -> None:
    step = rules.snap_step(held, wanted)
    assert (step[1] if step else None) == verb
