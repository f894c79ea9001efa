"""The queue of runs on a host."""

from __future__ import annotations

from pathlib import Path

from run_agent.act.turns import Turns


def test_turns_are_kept_until_the_end(tmp_path: Path) -> None:
    def of(run: str, boot: str = "boot", position: int | None = None) -> Turns:
        return Turns(tmp_path, run, "bob", boot, 30, position)

    first, second = of("a"), of("b")
    assert first.ask(stuck=True) is None
    assert not first.holding  # it could not start
    assert second.ask(stuck=False) is None
    assert second.holding
    assert (first.ask(stuck=False) or {})["behind"] == "b"
    second.leave(for_good=False)
    assert first.ask(stuck=False) is None
    # Started again in the same boot, it stands at the end; after a reboot it is where it was.
    assert (of("b").ask(stuck=False) or {})["behind"] == "a"
    first.leave(for_good=False)
    after = of("c", "next boot")
    assert (after.ask(stuck=False) or {})["behind"] == "a"
    assert of("a", "next boot").ask(stuck=False) is None
    of("a").leave(for_good=True)
    assert (after.ask(stuck=False) or {})["behind"] == "b"


def test_several_slices_have_the_order_of_the_file(tmp_path: Path) -> None:
    first, third, second = (
        Turns(tmp_path, run, "bob", "boot", 30, position)
        for run, position in (("a", 0), ("b", 2), ("c", 1))
    )
    assert first.ask(stuck=False) is None
    for waits in (third, second):
        assert (waits.ask(stuck=False) or {})["behind"] == "a"
    first.leave(for_good=True)
    assert (third.ask(stuck=False) or {})["behind"] == "c"
