"""One line for each slice while a playbook runs."""

from __future__ import annotations

import pytest

from tpu_fleet.show.progress import Progress, line_of
from tpu_fleet.workers.report import Machine, Report


@pytest.mark.parametrize(
    ("machines", "says"),
    [
        ([], "coming: CREATING"),
        ([Machine("a", "s", at="python_env"), Machine("b", "s")],
         "setting up 2 machines: 0 done, python_env (a)"),
        ([Machine("a", "s", done=True), Machine("b", "s", at="code")],
         "setting up 2 machines: 1 done, code (b)"),
        # The verdict comes after the end of the last one.
        ([Machine("a", "s", done=True)], "setting up 1 machine: 1 done"),
        ([Machine("a", "s", done=True, status="ok")], "1 machine set up: as declared"),
        ([Machine("a", "s", done=True, status="ok", changed=1)], "1 machine set up: 1 change"),
        ([Machine("a", "s", done=True, status="failed"), Machine("b", "s")],
         "failed: 1 of 2 machines"),
    ],
)  # fmt: skip
def test_the_line_of_a_slice(machines: list[Machine], says: str) -> None:
    report = Report(slices={"s": ("coming", "CREATING")})
    report.machines = {one.host: one for one in machines}
    assert line_of(report, "s") == says


def test_without_a_terminal_each_change_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report()
    with Progress(report, "tpu.fleet.site") as progress:
        for text in ("asking", "asking", "CREATING"):
            report.slices["solo"] = ("coming", text)
            progress.changed("solo")
        report.machines["solo"] = Machine("solo", "solo", at="host_base")
        progress.changed("solo")
        # From role to role would be a line for each role of each machine.
        report.machines["solo"].at = "python_env"
        progress.changed("solo")
        progress.printed("TASK [x]")
    lines = capsys.readouterr()
    assert lines.err.splitlines() == [
        "solo: coming: asking",
        "solo: coming: CREATING",
        "solo: setting up 1 machine: 0 done",
    ]
    assert lines.out == ""


def test_a_verbose_one_shows_what_ansible_prints(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(slices={"solo": ("ready", "v4-8")})
    with Progress(report, "tpu.fleet.site", verbose=True) as progress:
        progress.changed("solo")
        progress.printed("TASK [x]")
    assert capsys.readouterr() == ("TASK [x]\n", "")
