"""Grant mails as people paste them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpu_fleet.commands.trc_mail import GrantEntry, read_mail, with_ends

V4 = GrantEntry("us-central2-b", "on_demand", generation="v4", chips=32)
V3 = GrantEntry("europe-west4-a", "on_demand", accelerator_type="v3-8", count=5)


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("32 on-demand Cloud TPU v4 chips in zone us-central2-b", V4),
        ("  - 32 on-demand Cloud TPU v4 chips in zone us-central2-b.", V4),
        ("> > * **32 on demand Cloud TPU v4 chips in zone us-central2-b**", V4),
        ("\u2022 32 On-Demand TPU v4 chips in us-central2-b,", V4),
        ("5 on-demand Cloud TPU v3-8 device(s) in zone europe-west4-a", V3),
        ("5 on-demand Cloud TPU v3-8 devices in zone europe-west4-a", V3),
        (
            "100 preemptible Cloud TPU v2-8 device(s) in zone us-central1-f",
            GrantEntry("us-central1-f", "spot", accelerator_type="v2-8", count=100),
        ),
        (
            "64 spot Cloud TPU v5e chips in zone europe-west4-b",
            GrantEntry("europe-west4-b", "spot", generation="v5e", chips=64),
        ),
        (
            "2 reserved Cloud TPU v5e-16 devices in zone us-central1-a",
            GrantEntry("us-central1-a", "reserved", accelerator_type="v5litepod-16", count=2),
        ),
    ],
)
def test_a_line(line: str, entry: GrantEntry) -> None:
    mail = read_mail(line)
    assert mail.unclear == []
    assert mail.entries == [entry]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("32 on-demand Cloud TPU v4 in zone us-central2-b", "is not of the form"),
        ("5 on-demand Cloud TPU v3-8 in zone europe-west4-a", "is not of the form"),
        ("32 Cloud TPU v4 chips in zone us-central2-b", "is not of the form"),
        ("32 on-demand Cloud TPU v4 chips", "is not of the form"),
        ("32 on-demand Cloud TPU v4 chips in us-central2", "is not of the form"),
        ("some on-demand Cloud TPU v4 chips in zone us-central2-b", "is not of the form"),
        ("0 on-demand Cloud TPU v4 chips in zone us-central2-b", "is not of the form"),
        ("64 on-demand Cloud TPU v4 cores in zone us-central2-b", "is not of the form"),
        ("64 spot chips in zone us-east1-d", "is not of the form"),
        ("no 32 on-demand Cloud TPU v4 chips in zone us-central2-b", "is not of the form"),
        ("32 on-demand Cloud TPU v4 chips in zone us-central2-b each", "is not of the form"),
        ("32 spot TPU v4 chips in zone us-central2-b or us-central1-a", "is not of the form"),
        ("You no longer have 32 spot TPU v4 chips in zone us-central2-b", "is not of the form"),
        ("1,024 spot Cloud TPU v5e chips in zone us-central1-a", "is not of the form"),
        ("| us-central2-b | v4 | spot | 32 chips |", "is not of the form"),
        ("5 on-demand Cloud TPU v3 devices in zone europe-west4-a", "v3 is no known type"),
        ("64 spot Cloud TPU v6e-8 chips in zone us-east1-d", "v6e-8 is no known generation"),
        ("64 spot Cloud TPU v9x chips in zone us-east1-d", "v9x is no known generation"),
    ],
)
def test_what_is_not_clear_is_told_and_not_taken(line: str, why: str) -> None:
    mail = read_mail(f"Hello\n{line}\n")
    assert mail.entries == []
    (unclear,) = mail.unclear
    assert unclear.line == 2
    assert why in unclear.why


def test_a_whole_mail() -> None:
    mail = read_mail(
        """
> Thanks again for your interest in using Cloud TPUs to accelerate your research. Your Google
> Cloud project tokyo-carving-1 now has access to the following quota free of charge for 30 days:
>
>   *  64 spot Cloud TPU v6e chips in zone europe-west4-a
>   *  32 on-demand Cloud TPU v4 chips in zone us-central2-b
>
> IMPORTANT: this free trial is only for Cloud TPUs that you create in the zones listed above.
> Example: gcloud compute tpus tpu-vm create n --zone us-central2-b --accelerator-type v4-8
"""
    )
    assert mail.unclear == []
    assert mail.entries == [GrantEntry("europe-west4-a", "spot", generation="v6e", chips=64), V4]
    assert mail.days == 30
    ends = {entry.ends for entry in with_ends(mail, None, dt.date(2027, 3, 1))}
    assert ends == {dt.date(2027, 3, 30)}


def test_the_same_twice() -> None:
    line = "32 on-demand v4 chips in us-central2-b"
    mail = read_mail(f"{line}\n\n{line}")
    assert len(mail.entries) == 1
    (unclear,) = mail.unclear
    assert unclear.line == 3
    assert "repeats an earlier line" in unclear.why


@pytest.mark.parametrize(
    ("text", "days", "unclear"),
    [
        ("Free for 90 days", 90, 0),
        ("您可以免费使用以下配额,为期 30 天:", 30, 0),
        ("免费试用30天", 30, 0),
        ("Free for 90 days. Later: free for 30 days", None, 1),
        ("We answer in 3 days. Date: Mon, 1 March 2027", None, 0),
        ("Your quota is free of charge for 60\ndays:", 60, 0),
        ("Free for 60 days, say:\n$ gcloud compute tpus list", 60, 0),
        ("Subject: your trial of 3 days\nDate: Mon, 1 March 2027 10:00:00", None, 0),
    ],
)
def test_how_long_it_all_lasts(text: str, days: int | None, unclear: int) -> None:
    mail = read_mail(text)
    assert (mail.days, len(mail.unclear)) == (days, unclear)


# Round trips -------------------------------------------------------------------------------------

zones = st.sampled_from(
    ("us-central2-b", "europe-west4-a", "us-east1-d", "southamerica-west1-a", "me-west1-c")
)
places: dict[str, Any] = {"zone": zones, "tier": st.sampled_from(("on_demand", "spot", "reserved"))}
grants = st.lists(
    st.builds(
        GrantEntry,
        **places,
        generation=st.sampled_from(("v2", "v3", "v4", "v5e", "v5p", "v6e")),
        chips=st.integers(1, 20000),
    )
    | st.builds(
        GrantEntry,
        **places,
        accelerator_type=st.sampled_from(("v2-8", "v3-8", "v4-32", "v5litepod-16", "v6e-64")),
        count=st.integers(1, 200),
    ),
    min_size=1,
    max_size=8,
    unique=True,
)
TIER_WORDS = {
    "on_demand": ("on-demand", "On demand"),
    "spot": ("spot", "Preemptible"),
    "reserved": ("reserved", "Reserved"),
}


@given(grants, st.data())
def test_lines_come_back_as_they_were(entries: list[GrantEntry], data: st.DataObject) -> None:
    lines = []
    for entry in entries:
        devices = data.draw(st.sampled_from(("devices", "device(s)")))
        words = [
            str(entry.chips or entry.count),
            data.draw(st.sampled_from(TIER_WORDS[entry.tier])),
            data.draw(st.sampled_from(("Cloud TPU", "TPU", ""))),
            entry.generation or entry.accelerator_type or "",
            "chips" if entry.chips else devices,
            data.draw(st.sampled_from(("in zone", "in"))),
            entry.zone,
        ]
        bullet = data.draw(st.sampled_from(("", "- ", "* ", "> ", "•  ")))
        lines.append(bullet + " ".join(word for word in words if word))
    mail = read_mail("Hello,\n\n" + "\n".join(lines) + "\n\nThe team")
    assert mail.unclear == []
    assert mail.entries == entries


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    read_mail(text)
