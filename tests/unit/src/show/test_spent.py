"""Words for where time went."""

from __future__ import annotations

from tpu_fleet.show.spent import first_step_after, shares_text, start_text

PARTS = {
    "wait": 3.0, "prepare": 0.5, "import": 6.0, "restore": 4.0, "compile": 20.0, "first_step": 11.5,
}  # fmt: skip


def test_a_start() -> None:
    assert first_step_after(PARTS) == 42.0
    assert start_text(PARTS, {"programs": 9, "hits": 7}) == (
        "first step after 42 s, after a wait of 3.0 s: prepare 0.5 s, import 6.0 s, restore 4.0 s, "
        "compile 20 s (7 of 9 programs from the cache), the rest 11 s"
    )


def test_a_start_of_which_little_is_known() -> None:
    assert start_text({"wait": 0.0, "prepare": 0.0, "first_step": 5.0}, {}) == (
        "first step after 5.0 s: prepare 0.0 s, the rest 5.0 s"
    )
    assert (start_text({}, {}), first_step_after({})) == ("", None)


def test_shares() -> None:
    assert shares_text({"init": 5.0, "step": 90.0, "save": 0.001, "down": 5.0}) == (
        "step 90.0 %, init 5.0 %, down 5.0 %"
    )
    assert shares_text({}) == shares_text({"step": 0.0}) == ""
