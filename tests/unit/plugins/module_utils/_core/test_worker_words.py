"""What is taken of a worker's answers, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core import worker_words as words
from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import (
    LARGEST,
    AnswerError,
    parsed,
)
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import (
    left_by_run,
    runs_of,
    services_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._host import run_states
from ansible_collections.tpu.fleet.plugins.module_utils._roles.training_run.changes import (
    NOT_STARTED,
    RESTARTED,
    STARTED,
    STOPPED,
)

SERVICE = {"name": "notebook-a", "user": "alice", "address": "127.0.0.1", "port": 8888}


def test_services() -> None:
    (service,) = services_of("w", json.dumps([SERVICE, {"name": "metrics", "port": None}]))
    assert (service.name, service.port, service.url_path) == ("notebook-a", 8888, "/")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "x\nHost *\n  ProxyCommand id\nHost y"),
        ("name", "-oProxyCommand=id"),
        ("port", "8888 127.0.0.1:8888\n  ProxyCommand id\n#"),
        ("port", 0.5),
        ("port", True),
        ("port", 65536),
        ("user", "-l root"),
        ("url_path", "/$(id)"),
        ("token_file", "/etc/../$(id)"),
        ("enabled", "no"),
    ],
)
def test_a_service_that_would_write_into_the_ssh_configuration(field: str, value: Any) -> None:
    with pytest.raises(AnswerError, match=rf"^evil: .*services\[0\]\.{field} is ") as found:
        services_of("evil", json.dumps([{**SERVICE, field: value}]))
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    "entry",
    [
        ["../../../home/.ssh/", "/srv", "authorized_keys"],
        ["results/../../", "/srv", "x"],
        ["/etc/", "/srv", "x"],
        ["", "/srv", "../x"],
        ["", "/srv", "/etc/passwd"],
        ["", "/srv", "a/../../x"],
        ["", "/srv", "-e"],
        ["", "/srv", "a\nb"],
        ["", "/srv", "."],
        ["", "/srv", ""],
        ["", "tmp", "x"],
        ["", "/a/../b", "x"],
        ["", "/a\x00", "x"],
        ["", "/a"],
        "abc",
        [1, 2, 3],
    ],
)
def test_a_file_that_would_go_elsewhere(entry: Any) -> None:
    answer = {"runs": ["digits"], "user": "a", "rsync": False, "left": [entry], "missing": []}
    with pytest.raises(AnswerError, match=r"^evil: its answer is not accepted: left\[0\] is"):
        left_by_run("evil", json.dumps(answer))


def test_what_a_run_left() -> None:
    left = [["", "/var/log/x", "run.log"], ["results/", "/home/a", "plots/a b.png"]]
    answer = {"runs": ["digits"], "user": "a", "rsync": False, "left": left, "missing": ["best"]}
    found = left_by_run("w", json.dumps(answer))
    assert [(one.to, one.base, one.name) for one in found.left] == [tuple(one) for one in left]
    # A whole folder is for rsync alone.
    whole = {**answer, "rsync": True, "left": [["", "/var/log/x", "."]]}
    assert left_by_run("w", json.dumps(whole)).left[0].name == "."
    for user in ("", "-u", "a b", "$(x)", None):
        with pytest.raises(AnswerError, match=r"^w: its answer is not accepted: user is"):
            left_by_run("w", json.dumps({**answer, "user": user}))


@pytest.mark.parametrize("name", ["x$(id)", "a b", "../x", "-e", "", "x\ny", "{{ x }}", 7, None])
def test_the_name_of_a_run(name: Any) -> None:
    with pytest.raises(AnswerError, match=r"^evil: .*runs\[0\]\.run is"):
        runs_of("evil", json.dumps([{"run": name, "state": "failed"}]))


@pytest.mark.parametrize("end", [{"event": "x", "tail": 5}, {"tail": ["\ud800", 7]}, 9, [], "x"])
def test_the_end_of_a_log_is_of_its_user_and_refuses_nobody(end: Any) -> None:
    (run,) = runs_of("w", json.dumps([{"run": "digits", "state": "failed", "event": end}]))
    assert all(line == "\ufffd" for line in run.ending.tail)


@pytest.mark.parametrize(
    ("loss", "read"),
    [(0.5, 0.5), (3, 3.0), ("nan", "nan"), ("-inf", "-inf"), (None, None)],
)
def test_a_loss(loss: Any, read: Any) -> None:
    (run,) = runs_of("w", json.dumps([{"run": "digits", "loss": loss}]))
    assert run.loss == read


@pytest.mark.parametrize("loss", ["0.5", "\x1b[2J", True, [], 1e300, 10**400, float("nan"), ""])
def test_what_is_no_loss(loss: Any) -> None:
    (run,) = runs_of("evil", json.dumps([{"run": "digits", "loss": loss}]))
    assert (run.state, run.loss) == (words.REFUSED, None)
    assert run.reason.startswith("its status is not accepted: runs[0].loss is ")


USE = {"count": 4, "duty_cycle": 96.5, "memory_used": 5, "memory": 9}


def test_the_use_of_chips() -> None:
    told = {"run": "digits", "chips": USE, "tokens_per_second": 12, "mfu": 0.4}
    (run,) = runs_of("w", json.dumps([told]))
    assert run.chips == words.ChipUse(4, 96.5, 5, 9)
    assert (run.tokens_per_second, run.mfu) == (12.0, 0.4)
    (run,) = runs_of("w", json.dumps([{"run": "digits", "chips": {"count": 1}}]))
    assert run.chips == words.ChipUse(1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("count", 0), ("count", 65), ("count", "4"), ("duty_cycle", 100.5), ("duty_cycle", -1),
        ("duty_cycle", float("nan")), ("duty_cycle", True), ("memory_used", 10), ("memory", 2**60),
        ("memory", 1e300), ("memory_used", -1), ("memory", None),
    ],
)  # fmt: skip
def test_a_use_of_chips_that_no_runtime_reports_refuses_its_run(key: str, value: Any) -> None:
    told = [{"run": "digits", "chips": {**USE, key: value}}, {"run": "other", "chips": USE}]
    bad, good = runs_of("w", json.dumps(told))
    assert (bad.state, bad.chips) == (words.REFUSED, None)
    assert "runs[0].chips." in bad.reason
    assert good.chips == words.ChipUse(4, 96.5, 5, 9)


EXTREME = [
    -1, -5, 2**53 + 1, 10**30, 10**3000, 1e308, float("nan"), float("inf"), True, "x", "", "\ud800",
    "x" * 10**5, [], [[]], {}, {"a": {}},
]  # fmt: skip
FIELDS = [one.name for one in dataclasses.fields(words.RunStatus)]


@pytest.mark.parametrize("field", [*FIELDS, "queue", "event", "tail"])
def test_a_bad_value_refuses_one_run_and_no_other(field: str) -> None:
    good = {"run": "bobs", "user": "bob", "state": "running", "pid": 7, "step": 3}
    for value in EXTREME:
        if field == "run":
            continue  # only root chooses it
        said = json.dumps({"run": "alices", "user": "alice", "state": "running", field: value})
        # Python 3.10 writes longer numbers than a newer one reads.
        runs = f"[{said.replace('0' * 3000, '0' * 5000)}, {json.dumps(good)}]"
        for found in (
            runs_of("w", runs),
            words.listing("w", f'{{"now": 1.0, "boot_id": "b", "runs": {runs}}}').runs,
            words.standing(
                "w",
                f'{{"boot_id": "b", "set_up": true, "applied": "", "used": [], "runs": {runs}}}',
            ).runs,
        ):
            assert [one.run for one in found] == ["alices", "bobs"]
            assert (found[1].state, found[1].pid, found[1].step) == ("running", 7, 3)
            if found[0].state == words.REFUSED:
                assert f".{field}" in found[0].reason
                assert len(found[0].reason) < 600
                assert found[0].reason.isprintable()


def test_a_negative_pid_refuses_its_run() -> None:
    """A program's own record has its pid: the user can write -5 there."""
    told = [{"run": "alices", "user": "alice", "pid": -5, "attempt": 3}, {"run": "bobs", "pid": 7}]
    refused, good = runs_of("w", json.dumps(told))
    assert (refused.state, refused.user, refused.attempt) == (words.REFUSED, "alice", 3)
    assert refused.reason == (
        f"its status is not accepted: runs[0].pid is '-5', not a whole number from 0 to {LARGEST}"
    )
    assert good.pid == 7


def test_a_package_of_a_strange_name_refuses_no_finding() -> None:
    packages = {"jax": "0.4", "é\u202e": "1", "numpy": 7, "a b": "2"}
    answer = {
        "findings": [{"check": "disk", "status": "ok"}],
        "compare": {"venvs": {"train": {"python": "3.12", "packages": packages}}},
    }
    found = words.doctor_answer("w", answer)
    assert found["findings"][0]["status"] == "ok"
    assert found["compare"]["venvs"]["train"]["packages"] == {"jax": "0.4"}


def test_what_a_worker_tried_of_ports_is_read_or_refused() -> None:
    row = [0, 8482, "timeout", "JAX's coordinator"]
    seen = {"worker": 1, "hosts": ["10.0.0.2"], "network": "lab", "tried": 3, "blocked": [row]}
    checked = {"check": "disk", "status": "ok", "says": "", "remedy": ""}

    def read(**more: Any) -> Any:
        compare = {"ports": {"demo": {**seen, **more}}}
        answer = {"findings": [checked], "compare": compare}
        return words.doctor_answer("w", answer)["compare"]["ports"]["demo"]

    assert read() == seen
    for bad in ([0, 8482, "closed", ""], [0, 0, "timeout", ""], [0, 1], ["0", 1, "timeout", ""]):
        with pytest.raises(AnswerError):
            read(blocked=[bad])
    with pytest.raises(AnswerError):
        read(hosts=["$(reboot)"])


def test_the_log_of_a_refused_run_is_readable() -> None:
    line = json.dumps({"run": {"run": "alices", "pid": -5, "log_path": "/var/log/x"}}).encode()
    found = words.piece("w", line, 10).run
    assert found is not None
    assert (found.state, found.log_path) == (words.REFUSED, "/var/log/x")


def test_any_number_of_uses_is_cut() -> None:
    used = [f"user{n} is logged in" for n in range(5000)]
    answer = {"boot_id": "b", "set_up": True, "applied": "", "used": [7, *used], "runs": []}
    assert words.standing("w", json.dumps(answer)).used == tuple(used[: words.USES - 1])


@pytest.mark.parametrize(
    ("disk", "read"),
    [
        ({"point": "/mnt/\x1b[2J", "percent": 97}, ("/mnt/", 97)),
        ({}, None),
        (None, None),
        ({"point": "/", "percent": 101}, AnswerError),
        ({"point": 7, "percent": 1}, AnswerError),
        (["/"], AnswerError),
    ],
)
def test_a_disk(disk: Any, read: Any) -> None:
    answer = json.dumps({"now": 1.0, "boot_id": "b", "runs": [], "disk": disk})
    if read is AnswerError:
        with pytest.raises(AnswerError, match=r"^evil: .*disk"):
            words.listing("evil", answer)
        return
    found = words.listing("evil", answer).disk
    assert (found and (found.point, found.percent)) == read


@pytest.mark.parametrize("answer", ["", "{", "[" * 100_000, "A" * (1 << 23), None, 7])
def test_what_is_no_answer(answer: Any) -> None:
    with pytest.raises(AnswerError, match=r"^evil: its answer is not accepted"):
        runs_of("evil", answer)


def test_our_address_is_no_range() -> None:
    assert words.seen_address("w", "203.0.113.7 5000 10.0.0.1 22\n") == "203.0.113.7"
    for said in ("0.0.0.0/0", "", "x", "203.0.113.7/1 2"):
        with pytest.raises(AnswerError, match="not an address"):
            words.seen_address("evil", said)


@pytest.mark.parametrize(
    "run_id", ["{{ lookup('pipe', 'id') }}", "{% x %}", "a b", "-x", "a" * 300]
)
def test_the_identity_of_a_run_is_one_word(run_id: str) -> None:
    (run,) = runs_of("evil", json.dumps([{"run": "digits", "run_id": run_id}]))
    assert (run.state, run.run_id) == (words.REFUSED, "")
    assert "runs[0].run_id is" in run.reason


@pytest.mark.parametrize("run_id", ["digits-0a1b2c3d", "r", "", None])
def test_identities_that_agents_write(run_id: str | None) -> None:
    (run,) = runs_of("w", json.dumps([{"run": "digits", "run_id": run_id}]))
    assert run.run_id == (run_id or "")


@pytest.mark.parametrize("name", ["\ud800", "a/\udcff", "\x00"])
def test_a_name_that_cannot_be_encoded_is_refused(name: str) -> None:
    answer = {"runs": ["digits"], "rsync": False, "left": [["", "/srv", name]], "missing": []}
    with pytest.raises(AnswerError, match=r"^evil: .*left\[0\] is"):
        left_by_run("evil", json.dumps(answer))


def test_more_runs_than_anybody_has_are_refused_at_once() -> None:
    many = [{"run": f"r{n}"} for n in range(10_000)]
    with pytest.raises(AnswerError, match="not a list of at most 1000"):
        runs_of("evil", json.dumps(many))
    assert len(runs_of("w", json.dumps(many[:1000]))) == 1000


@pytest.mark.parametrize("pair", ["[]", '{"a":}'])
def test_what_is_nested_too_deep(pair: str) -> None:
    begin, end = pair[:-1], pair[-1]

    def deep(levels: int) -> str:
        return begin * levels + "7" + end * levels

    assert parsed("w", deep(50)) == json.loads(deep(50))
    with pytest.raises(AnswerError, match="not JSON of at most 50 levels"):
        parsed("evil", deep(51))
    said = {"say": "event", "event": "shared", "name": "x", "value": {"a": json.loads(deep(60))}}
    with pytest.raises(AnswerError, match="not JSON of at most 50 levels"):
        words.applied_word("evil", json.dumps(said).encode())


def test_what_a_worker_reports_of_its_runs_is_read_field_by_field() -> None:
    change = {"run": "lr3", "does": "restarted", "why": ["code"], "note": "\x1b[2Jx"}
    said = {"say": "event", "event": "runs", "runs": [{**change, "more": "x"}]}
    read = words.applied_word("w0", json.dumps(said).encode())
    assert read["runs"] == [{**change, "note": "x"}]
    for does in (STARTED, RESTARTED, STOPPED, NOT_STARTED):
        said["runs"] = [{**change, "does": does}]
        assert words.applied_word("w0", json.dumps(said).encode())["runs"][0]["does"] == does
    for wrong in ({"run": "a b"}, {"does": "exploded"}, {"why": "code"}):
        said["runs"] = [{**change, **wrong}]
        with pytest.raises(AnswerError, match=r"^evil: "):
            words.applied_word("evil", json.dumps(said).encode())


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ({}, None),
        ({"idle_runs": None}, None),
        ({"idle_runs": []}, []),
        (
            {"idle_runs": [{"run": "r", "state": "failed", "reason": "\x1b[2Jx", "more": 1}]},
            [{"run": "r", "state": "failed", "reason": "x"}],
        ),
    ],
)
def test_a_machine_that_did_not_look_at_its_runs_is_not_one_whose_runs_run(
    said: dict[str, Any], read: list[dict[str, str]] | None
) -> None:
    line = json.dumps({"say": "result", "status": "ok", **said}).encode()
    assert words.applied_word("w0", line)["idle_runs"] == read


def test_an_invalid_state_refuses_one_idle_run() -> None:
    runs = [{"run": "r", "state": "\n"}, {"run": "s", "state": "failed"}]
    line = json.dumps({"say": "result", "status": "ok", "idle_runs": runs}).encode()
    states = {run["run"]: run["state"] for run in words.applied_word("w0", line)["idle_runs"]}
    assert states == {"r": "refused", "s": "failed"}


ALICE = {"alice": {"keys": {"work": {"public": f"ssh-ed25519 {'A' * 68}"}}}}


@pytest.mark.parametrize(
    ("noted", "users"),
    [
        # It was not asked for them, or has noted nothing yet.
        ({}, None),
        ({"git_access": None}, None),
        # Nobody has a key any more, which is not the same.
        ({"git_access": {"users": {}}}, {}),
        ({"git_access": {"users": ALICE}}, ALICE),
    ],
)
def test_a_machine_without_keys_is_not_one_that_says_nothing(
    noted: dict[str, Any], users: dict[str, Any] | None
) -> None:
    said = {"say": "result", "status": "ok", **noted}
    assert words.applied_word("w0", json.dumps(said).encode())["git_users"] == users


def test_the_word_for_a_refused_run_is_that_of_the_table_of_states() -> None:
    """Neither of the two rooms may import the other."""
    assert words.REFUSED == run_states.REFUSED
