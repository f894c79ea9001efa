"""The summary of a profile, as a terminal of 80 columns shows it."""

from __future__ import annotations

from pathlib import Path

from tpu_fleet.show.profile import operations_table, workers_table
from tpu_fleet.workers.profile.bring import Profile
from tpu_fleet.workers.profile.figures import COLLECTIVE, Shares, Total

BOTH = Profile(
    *("pair-w0", 7, Path("pair-w0.xplane.pb"), 1_300_000), *("jax 0.12.0.1", 0.01, 5.0, 1812, 1840)
)
LESS = Profile("pair-w1", 8, Path("pair-w1-8.xplane.pb"), 100)
SHARES = Shares(4, 0.414, 0.38, 0.123)


def test_the_workers_at_80_columns() -> None:
    lines = [str(line) for line in workers_table([(BOTH, SHARES), (LESS, None)]).lines(80)]
    assert lines == [
        "WORKER     STEPS           IDLE  INPUT  COLLECTIVES  DEVICES  SECONDS       SIZE",
        "pair-w0    1,812 to 1,840  41 %   38 %         12 %        4      5.0    1.2 MiB",
        "pair-w1-8  -                  -      -            -        0        -  100 bytes",
    ]


def test_the_operations_at_80_columns() -> None:
    long = "multiply_multiply_fusion_of_a_very_long_name_that_no_terminal_can_show_beside_the_rest"
    totals = [
        Total("all-reduce.3", COLLECTIVE, 3.25, 1200, 0.514),
        Total(long, "", 0.000123456, 7, 0.001),
    ]
    lines = [str(line) for line in operations_table(totals).lines(80)]
    assert all(len(line) <= 80 for line in lines)
    assert lines == [
        "OPERATION                             SHARE  SECONDS  CALLS  KIND",
        "all-reduce.3                           51 %     3.25  1,200  collective",
        "multiply_multiply_fusion_of_a_very_…    0 %  0.00012      7  -",
    ]
