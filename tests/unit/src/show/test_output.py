"""What many workers say, in few lines; and what we end with."""

from __future__ import annotations

import io
import json
import sys

import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result

from tpu_fleet.show.output import (
    IN_MEMORY,
    LONGEST_LINE,
    Complaints,
    Grouped,
    Json,
    Tagged,
    exit_code,
    problems,
    same_output,
    summary,
)
from tpu_fleet.workers.ask.on_all import remote_command
from tpu_fleet.workers.ask.view import View

OK = Kind.DONE


def done(name: str, status: int = 0) -> Result:
    return Result(name, OK, status)


LOST = Result("w3", Kind.UNREACHABLE, says="10.0.0.3 does not answer", remedy="Look.")


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([], 0),
        ([done("a"), done("b")], 0),
        ([done("a"), done("b", 3)], 1),
        ([done("a", 255)], 1),
        ([done("a"), LOST], 2),
        ([done("a", 1), LOST], 2),
        ([Result("a", OK, 0, says="the archive is broken")], 1),
        *(([Result("a", kind)], 2) for kind in Kind if kind is not OK),
    ],
)
def test_exit_codes(results: list[Result], code: int) -> None:
    assert exit_code(results) == code


def test_the_summary() -> None:
    results = [done(f"w{number}") for number in range(3)]
    assert summary(results) == "3 of 3 ok"
    results += [done("w4", 1), done("w5", 1), done("w6", 2), LOST]
    results.append(Result("w7", OK, 0, says="broken"))
    assert summary(results) == (
        "3 of 8 ok; exit status 1: w[4-5]; exit status 2: w6; failed: w7; no result: w3"
    )


def test_problems_with_one_remedy_are_one_line() -> None:
    others = [
        Result(f"w{number}", Kind.UNREACHABLE, says=f"10.0.0.{number} is not there", remedy="Look.")
        for number in (12, 4)
    ]
    key = Result("w0", Kind.HOST_KEY, says="it is another machine.", remedy="Ask.")
    assert problems([others[0], LOST, done("w9", 4), others[1], key]) == [
        "w[3-4,12]: unreachable: 10.0.0.3 does not answer (and 2 like it). Look.",
        "w0: host key: it is another machine. Ask.",
    ]


def test_equal_output_is_put_together() -> None:
    results = [done("w10"), done("w2"), done("w1"), done("w0", 1), LOST]
    digests = {"w10": ("a", ""), "w2": ("a", ""), "w1": ("b", ""), "w0": ("a", "")}
    groups = same_output(results, digests)
    assert [names for names, _first in groups] == [["w2", "w10"], ["w0"], ["w1"], ["w3"]]


def test_lines_come_whole_and_tagged(capsys: pytest.CaptureFixture[str]) -> None:
    view = Tagged(["w0", "w10"], colours=False)
    view.output("w0", "stdout", b"one\ntw")
    view.output("w10", "stdout", b"\xff\n")
    view.output("w10", "stderr", b"10%\r20%\r\n")
    view.output("w0", "stdout", b"o\n\nend")
    view.done(done("w0"))
    view.done(done("w10"))
    said = capsys.readouterr()
    assert said.out == "w0 | one\nw10 | \ufffd\nw0 | two\nw0 | \nw0 | end\n"
    assert said.err == "w10 | 20%\n"


def test_a_line_without_end_does_not_fill_the_memory(capsys: pytest.CaptureFixture[str]) -> None:
    view = Tagged(["w0"], colours=False)
    for _time in range(5):
        view.output("w0", "stdout", b"x" * LONGEST_LINE)
    held = sum(map(len, view._rest.values()))
    assert held <= LONGEST_LINE
    view.done(done("w0"))
    assert capsys.readouterr().out.count("x") == 5 * LONGEST_LINE


def test_grouped(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    view = Grouped(4, colours=False, progress=False)
    for name in ("w0", "w1"):
        view.output(name, "stdout", b"sa")
        view.output(name, "stdout", b"me")
    view.output("w2", "stderr", b"odd\n")
    results = [done("w0"), done("w1"), done("w2", 1), done("w3"), done("w4", 1)]
    for result in results:
        view.done(result)
    view.finish(results)
    view.close()
    said = capfdbinary.readouterr()
    assert said.out == (b"w[0-1] (2) said:\nsame\nw2, exit status 1, said:\nw3 said nothing\n")
    assert said.err == b"odd\n"


def test_complaints(capsys: pytest.CaptureFixture[str]) -> None:
    view = Complaints()
    for name in ("w0", "w1", "w2"):
        view.output(name, "stderr", b"no fol")
        view.output(name, "stderr", b"der\nat all" if name != "w1" else b"der\n")
    results = [done("w0", 1), done("w1", 1), done("w2", 1), done("w3")]
    view.finish(results)
    view.close()
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "w[0,2] (2) | no folder\nw[0,2] (2) | at all\nw1 | no folder\n"


def test_much_output_waits_on_the_disk(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    view = Grouped(1, colours=False, progress=False)
    for _time in range(3):
        view.output("w0", "stdout", b"x" * IN_MEMORY)
    said = view.said("w0", "stdout")
    assert said is not None
    assert said.file._rolled
    view.finish([done("w0")])
    view.close()
    assert capfdbinary.readouterr().out.count(b"x") == 3 * IN_MEMORY


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    view = Json()
    view.output("w0", "stdout", b'"\xff')
    view.finish([done("w0"), LOST])
    view.close()
    told = json.loads(capsys.readouterr().out)
    assert told["workers"][0] == {
        "worker": "w0",
        "ok": True,
        "kind": "done",
        "exit_status": 0,
        "stdout": '"\ufffd',
        "stderr": "",
        "says": "",
        "remedy": "",
        "seconds": 0.0,
    }
    assert told["workers"][1]["kind"] == "unreachable"
    assert told["summary"] == {"ok": 1, "failed": 0, "no_result": 1}
    assert told["exit_code"] == 2


def test_one_word_is_for_a_shell_and_several_are_a_command() -> None:
    assert " 'ls *.log | wc -l' " in remote_command(["ls *.log | wc -l"])
    assert remote_command(["echo", "a b"]).count("echo '\"'\"'a b'\"'\"'") == 1
    assert remote_command(["true"]).startswith("exec /bin/sh -c ")
    assert remote_command(["true"], sudo=True).startswith("exec sudo -n -H -- /bin/sh -c ")


class FakeTerminal(io.TextIOWrapper):
    """A terminal that remembers what was written."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("tagged", [False, True])
def test_a_worker_does_not_steer_the_terminal(
    tagged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = b"\x1b[31mred\x1b[0m \x1b]52;c;eA==\x07 \x1b[2J \xff ok\n"
    view = Tagged(["solo"], False) if tagged else View()
    terminal = FakeTerminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    for at in range(len(said)):
        view.output("solo", "stdout", said[at : at + 1])
    text = terminal.buffer.getvalue().decode()
    assert "\x1b[31mred\x1b[0m" in text
    assert text.endswith(" ok\n")
    assert "\x1b]" not in text
    assert "\x1b[2J" not in text
    # What is no terminal gets every byte.
    if not tagged:
        pipe = io.TextIOWrapper(io.BytesIO())
        monkeypatch.setattr(sys, "stdout", pipe)
        view.output("solo", "stdout", said)
        assert pipe.buffer.getvalue() == said
