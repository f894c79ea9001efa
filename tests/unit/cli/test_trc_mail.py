"""Grant mails as people paste them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpu_fleet.commands.trc_mail import Doubt, Entry, parse_date, read_mail, with_ends

V4 = Entry("us-central2-b", "on_demand", generation="v4", chips=32)
V3 = Entry("europe-west4-a", "on_demand", accelerator_type="v3-8", count=5)
LAST = dt.date(2027, 3, 31)


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("32 on-demand Cloud TPU v4 chips in zone us-central2-b", V4),
        ("  - 32 on-demand Cloud TPU v4 chips in zone us-central2-b.", V4),
        ("> > * **32 on demand Cloud TPU v4 chips in zone us-central2-b**", V4),
        ("1. 32 On-Demand TPU v4 chips in us-central2-b", V4),
        ("(2) 32 on-demand Google Cloud TPU v4 chips in the zone us-central2-b,", V4),
        ("up to 32 on-demand Cloud TPU v4 chips in zone us-central2-b", V4),
        ("32 on-demand VM Cloud TPU v4 chips in zone us-central2-b", V4),
        ("You now have access to 32 on-demand v4 TPU chips at us-central2-b", V4),
        ("5 on-demand Cloud TPU v3-8 device(s) in zone europe-west4-a", V3),
        ("5 on-demand Cloud TPU v3-8 devices in zone europe-west4-a", V3),
        (
            "100 preemptible Cloud TPU v2-8 device(s) in zone us-central1-f",
            Entry("us-central1-f", "spot", accelerator_type="v2-8", count=100),
        ),
        (
            "64 spot Cloud TPU v5e chips in zone europe-west4-b",
            Entry("europe-west4-b", "spot", generation="v5e", chips=64),
        ),
        (
            "1,024 spot Cloud TPU v5 lite chips in zone us-central1-a",
            Entry("us-central1-a", "spot", generation="v5e", chips=1024),
        ),
        (
            "2 reserved Cloud TPU v5e-16 devices in zone us-central1-a",
            Entry("us-central1-a", "reserved", accelerator_type="v5litepod-16", count=2),
        ),
        (
            "32 on-demand Cloud TPU v4 chips in zone us-central2-b until March 31, 2027",
            Entry("us-central2-b", "on_demand", generation="v4", chips=32, ends=LAST),
        ),
    ],
)
def test_a_line(line: str, entry: Entry) -> None:
    mail = read_mail(line)
    assert mail.unclear == []
    assert mail.entries == [entry]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("32 on-demand Cloud TPU v4 in zone us-central2-b", "neither chips nor devices"),
        ("5 on-demand Cloud TPU v3-8 in zone europe-west4-a", "neither chips nor devices"),
        ("32 Cloud TPU v4 chips in zone us-central2-b", "on demand, spot or reserved"),
        ("32 on-demand Cloud TPU v4 chips", "names no zone"),
        ("32 on-demand Cloud TPU v4 chips in us-central2", "names no zone"),
        ("on-demand Cloud TPU v4 chips in zone us-central2-b", "how many"),
        ("some on-demand Cloud TPU v4 chips in zone us-central2-b", "how many"),
        ("0 on-demand Cloud TPU v4 chips in zone us-central2-b", "counts none"),
        ("64 on-demand Cloud TPU v4 cores in zone us-central2-b", "cores"),
        ("5 on-demand Cloud TPU v3 devices in zone europe-west4-a", "of which size"),
        ("64 spot Cloud TPU v6e-8 chips in zone us-east1-d", "itself a number of chips"),
        ("64 spot Cloud TPU v9x chips in zone us-east1-d", "not known"),
        ("64 spot chips in zone us-east1-d", "names a zone, but no TPU"),
        ("no 32 on-demand Cloud TPU v4 chips in zone us-central2-b", "no"),
        ("32 on-demand Cloud TPU v4 chips in zone us-central2-b each", "each"),
        ("32 on-demand Cloud TPU v4 chips in zone us-central2-b or us-central1-a", "more than"),
        ("You no longer have 32 on-demand Cloud TPU v4 chips in zone us-central2-b", "longer"),
        (
            "32 on-demand Cloud TPU v4 chips in zone us-central2-b from 2027-01-01",
            "does not say that it ends then",
        ),
        (
            "32 on-demand Cloud TPU v4 chips in zone us-central2-b until 3/4/2027",
            "day and month could change places",
        ),
        (
            "32 on-demand Cloud TPU v4 chips in zone us-central2-b until 2027-02-30",
            "does not exist",
        ),
        ("Use the zones us-central2-b", "names a zone, but no TPU"),
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
>   *  32 on-demand Cloud TPU v4
>      chips in zone us-central2-b
>
> IMPORTANT: this free trial is only for Cloud TPUs that you create in the zones listed above.
> Example: gcloud compute tpus tpu-vm create n --zone us-central2-b --accelerator-type v4-8
"""
    )
    assert mail.unclear == []
    assert mail.entries == [Entry("europe-west4-a", "spot", generation="v6e", chips=64), V4]
    assert mail.days == 30
    ends = {entry.ends for entry in with_ends(mail, None, dt.date(2027, 3, 1))}
    assert ends == {dt.date(2027, 3, 30)}


def test_two_on_one_line_and_the_same_twice() -> None:
    one, other = "32 on-demand v4 chips in us-central2-b", "64 spot v6e chips in us-east1-d"
    mail = read_mail(f"{one} and {other}\n\n{one}")
    assert len(mail.entries) == 2
    (unclear,) = mail.unclear
    assert unclear.line == 3
    assert "same as line 1" in unclear.why


@pytest.mark.parametrize(
    ("text", "ends", "days", "unclear"),
    [
        ("Your access expires on 31 March 2027.", LAST, None, 0),
        ("It is yours until 2027-03-31. Have fun", LAST, None, 0),
        ("Free for 90 days", None, 90, 0),
        ("Free for 90 days. Later: free for 30 days", None, None, 1),
        ("Ends 31 March 2027\nExpires 30 April 2027", None, None, 1),
        ("Expires 3/4/2027", None, None, 1),
        ("We answer in 3 days. Date: Mon, 1 March 2027", None, None, 0),
        ("Your quota is free of charge for 60\ndays:", None, 60, 0),
        ("Free for 60 days, say:\n$ gcloud compute tpus list", None, 60, 0),
        ("Your access will end on\nMarch 31, 2027.", LAST, None, 0),
        ("Subject: your trial ends\nDate: Mon, 1 March 2027 10:00:00", None, None, 0),
        ("It began on 1 March 2027. It ends on 31 March 2027.", LAST, None, 0),
        ("It ends. That was on 31 March 2027", None, None, 1),
    ],
)
def test_how_long_it_all_lasts(
    text: str, ends: dt.date | None, days: int | None, unclear: int
) -> None:
    mail = read_mail(text)
    assert (mail.ends, mail.days, len(mail.unclear)) == (ends, days, unclear)


@pytest.mark.parametrize(
    "text",
    [
        "2027-03-31", "2027/03/31", "March 31, 2027", "Mar. 31 2027", "31 March 2027",
        "31st of March 2027", "31-Mar-2027", "31.03.2027", "3/31/2027", "31/3/2027",
    ],
)  # fmt: skip
def test_spellings_of_a_day(text: str) -> None:
    assert parse_date(text) == LAST


@pytest.mark.parametrize("text", ["", "soon", "3/4/2027", "2027-02-30", "31 March", "2027"])
def test_what_is_no_day(text: str) -> None:
    with pytest.raises(Doubt):
        parse_date(text)


# Round trips -------------------------------------------------------------------------------------

zones = st.sampled_from(
    ("us-central2-b", "europe-west4-a", "us-east1-d", "southamerica-west1-a", "me-west1-c")
)
dates = st.none() | st.dates(dt.date(2025, 1, 1), dt.date(2035, 12, 31))
places: dict[str, Any] = {
    "zone": zones,
    "tier": st.sampled_from(("on_demand", "spot", "reserved")),
    "ends": dates,
}
grants = st.lists(
    st.builds(
        Entry,
        **places,
        generation=st.sampled_from(("v2", "v3", "v4", "v5e", "v5p", "v6e")),
        chips=st.integers(1, 20000),
    )
    | st.builds(
        Entry,
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
DAYS = ("%Y-%m-%d", "%B %d, %Y", "%d %b %Y", "%d-%b-%Y", "%Y/%m/%d")


def amount(entry: Entry, draw: Any, unit: bool) -> str:
    number = entry.chips or entry.count or 0
    text = f"{number:,}" if draw(st.booleans()) else str(number)
    if not unit:
        return text
    return f"{text} {'chips' if entry.chips else draw(st.sampled_from(('devices', 'device(s)')))}"


@given(grants, st.data())
def test_lines_come_back_as_they_were(entries: list[Entry], data: st.DataObject) -> None:
    lines = []
    for entry in entries:
        number, unit = amount(entry, data.draw, True).split(" ", 1)
        words = [
            number,
            data.draw(st.sampled_from(TIER_WORDS[entry.tier])),
            data.draw(st.sampled_from(("Cloud TPU", "TPU", ""))),
            entry.generation or entry.accelerator_type or "",
            unit,
            data.draw(st.sampled_from(("in zone", "in"))),
            entry.zone,
        ]
        if entry.ends:
            form = data.draw(st.sampled_from(DAYS))
            words += [data.draw(st.sampled_from(("until", "ends", "expires on")))]
            words += [entry.ends.strftime(form)]
        bullet = data.draw(st.sampled_from(("", "- ", "* ", "> ", "  1. ", "•  ")))
        lines.append(bullet + " ".join(word for word in words if word))
    mail = read_mail("Hello,\n\n" + "\n".join(lines) + "\n\nThe team")
    assert mail.unclear == []
    assert mail.entries == entries


def bars(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


SHAPES = (bars, "\t".join, ";".join)


@given(grants, st.data())
def test_tables_come_back_as_they_were(entries: list[Entry], data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(SHAPES))
    columns = data.draw(st.permutations(("Zone", "TPU type", "Tier", "Quantity", "End date")))
    rows = [shape(list(columns))]
    if shape is bars:
        rows.append(bars(["---"] * len(columns)))
    for entry in entries:
        cells = {
            "Zone": entry.zone,
            "TPU type": entry.generation or entry.accelerator_type or "",
            "Tier": data.draw(st.sampled_from(TIER_WORDS[entry.tier])),
            "Quantity": amount(entry, data.draw, True),
            "End date": entry.ends.strftime("%Y-%m-%d") if entry.ends else "",
        }
        rows.append(shape([cells[column] for column in columns]))
    mail = read_mail("Your grant:\n\n" + "\n".join(rows) + "\n\nBye")
    assert mail.unclear == []
    assert mail.entries == entries


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("us-central2-b;v4;spot;32", "neither chips nor devices"),
        ("us-central2-b;v4;;32 chips", "on demand, spot or reserved"),
        ("us-central2;v4;spot;32 chips", "names no zone"),
        ("us-central2-b;v4 and v3;spot;32 chips", "two kinds"),
        ("us-central2-b;v4 (on-demand);spot;32 chips", "two tiers"),
        ("us-central2-b;v4;spot;a few", "for a number"),
        ("us-central2-b;v4;spot", "3 columns under a head of 4"),
    ],
)
def test_a_row_that_is_not_clear(row: str, why: str) -> None:
    mail = read_mail(f"zone;type;tier;count\nus-east1-d;v6e;spot;64 chips\n{row}\n")
    assert len(mail.entries) == 1
    (unclear,) = mail.unclear
    assert unclear.line == 3
    assert why in unclear.why


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    read_mail(text)
