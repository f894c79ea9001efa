"""What the doctor decides about controller, way to the workers, and slices: each case occurs."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._compute.quotas import quotas_of
from ansible_collections.tpu.fleet.plugins.module_utils._core.checkpoints import (
    UNFINISHED,
    WHOLE,
    Checkpoint,
)
from ansible_collections.tpu.fleet.plugins.module_utils._doctor import remote
from ansible_collections.tpu.fleet.plugins.module_utils._doctor.check import examine
from ansible_collections.tpu.fleet.plugins.module_utils._doctor.controller import (
    CHECKS,
    WORKER_CHECKS,
    compute_limit_of,
    limit_of,
    ssh_case,
)
from ansible_collections.tpu.fleet.plugins.module_utils._doctor.remote import (
    SUBMITS,
    pace,
    wanted,
)
from ansible_collections.tpu.fleet.plugins.module_utils._doctor.report import report
from ansible_collections.tpu.fleet.plugins.module_utils._doctor.slice import (
    CHECKS as SLICE_CHECKS,
)
from ansible_collections.tpu.fleet.plugins.module_utils._google import bucket_settings
from ansible_collections.tpu.fleet.plugins.module_utils._google.apis import GoogleApis
from ansible_collections.tpu.fleet.plugins.module_utils._google.storage_prices import GB
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils.fake_api import (
    Call,
    FakeSession,
    client_with,
    error,
)

API = {"error": "", "remedy": "", "project": "p", "zones": 3, "unreachable": [], "ahead": 0.2}
MISSING = {"name": "big", "phase": "not created", "text": "nothing was requested yet"}
GRANT: dict[str, Any] = {"error": "", "declared": True, "warnings": [], "dead": [], "missing": []}
KEY = {"path": "/k", "there": True, "mode": 0o600}
TOOLS = {"ssh": True, "ansible": "2.19.0", "python": "3.12.1", "key": KEY}
WISH = {
    "slice": "solo",
    "type": "v6e-8",
    "generation": "v6e",
    "tier": "spot",
    "zone": "europe-west4-a",
    "api": "tpu",
    "units": 8,
}
ON_COMPUTE = {**WISH, "api": "compute"}
BUCKET: dict[str, Any] = {
    "name": "b",
    "location": "EUROPE-WEST4",
    "resource": {"name": "b", "location": "EUROPE-WEST4", **bucket_settings.wanted()},
    "zones": ["europe-west4-a"],
    "folders": ["lm/"],
    "saves": [{"bytes": 100.0 * GB, "seconds": 3600.0}],
    "error": "",
}

READS = ["roles/storage.legacyBucketReader", "roles/storage.objectViewer"]


def bucket(**changes: Any) -> dict[str, Any]:
    return {**BUCKET, "resource": {**BUCKET["resource"], **changes}}


WEEK = {"retentionDurationSeconds": "604800"}
BY_AGE = {"action": {"type": "Delete"}, "condition": {"age": 7}}
NOTICE = {"field": "fleet_slices[0].tier", "message": "is dear", "remedy": "Take another"}
WORKER = {
    "slice": "solo",
    "address": "10.0.0.9",
    "user": "ubuntu",
    "key": "/k",
    "type": "v4-8",
    "runtime": "tpu-ubuntu2204-base",
    "reason": "",
    "maintenance": "",
    "strict": True,
    "login": {"code": 0, "said": ""},
}


def metric(name: str, *buckets: tuple[int, dict[str, str]]) -> dict[str, Any]:
    found = [{"effectiveLimit": str(limit), "dimensions": where} for limit, where in buckets]
    return {"metric": name, "consumerQuotaLimits": [{"quotaBuckets": found}]}


SPOT = "tpu.googleapis.com/tpu-v6e-preemptible"
# As Compute Engine has it.
SPOT_CHIPS = "compute.googleapis.com/preemptible_tpu_v6e"
FAMILIES = "compute.googleapis.com/tpus_per_tpu_family"


def facts(**changes: Any) -> dict[str, Any]:
    well: dict[str, Any] = {
        "tools": TOOLS,
        "credentials": {"place": "google", "found": "gcloud's login", "error": "", "remedy": ""},
        "api": API,
        "compute_api": {"error": "", "remedy": "", "slices": 1, "unreachable": [], "ahead": 0.2},
        "compute_quota": {"error": "", "metrics": [metric(SPOT_CHIPS, (64, {}))]},
        "grant": GRANT,
        "quota": {"error": "", "metrics": [metric(SPOT, (64, {}))]},
        "wanted": [WISH],
        "buckets": [BUCKET],
        "notices": [],
    }
    return {**well, **changes}


def bad(checks: Any, found: dict[str, Any]) -> set[tuple[str, str, str]]:
    rows = examine(checks, found)
    assert all(row.remedy for row in rows if row.status in ("warn", "fail"))
    return {(f.check, f.case, f.status) for f in rows if f.status in ("warn", "fail")}


DEAD = {"name": "q", "zone": "z", "state": "SUSPENDED"}
CONTROLLER: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"notices": [NOTICE]}, ["fleet_file notice warn"]),
    ({"tools": {**TOOLS, "ssh": False}}, ["tools no_ssh fail"]),
    ({"tools": {**TOOLS, "key": {**KEY, "there": False}}}, ["tools no_key fail"]),
    ({"tools": {**TOOLS, "key": {**KEY, "mode": 0o644}}}, ["tools open_key fail"]),
    ({"tools": {**TOOLS, "key": None}}, []),
    (
        {"credentials": {"place": "google", "found": "", "error": "none", "remedy": "log in"}},
        ["credentials unusable fail"],
    ),
    ({"api": {**API, "error": "it is disabled", "remedy": "enable it"}}, ["api refuses fail"]),
    ({"api": {**API, "unreachable": ["us-east1-d"]}}, ["api unreachable warn"]),
    ({"api": {**API, "ahead": -7.0}}, ["time off warn"]),
    ({"api": {**API, "ahead": 700.0}}, ["time wrong fail"]),
    ({"grant": {**GRANT, "declared": False}}, ["grant undeclared warn"]),
    ({"grant": {**GRANT, "warnings": ["ends tomorrow"]}}, ["grant warns warn"]),
    ({"grant": {**GRANT, "dead": [DEAD]}}, ["grant dead warn"]),
    ({"grant": {**GRANT, "missing": [MISSING]}}, ["slices missing warn"]),
    ({"grant": {**GRANT, "missing": [{**MISSING, "phase": "refused"}]}}, ["slices refused warn"]),
    ({"grant": {"error": "no list"}}, ["grant unreadable warn"]),
    ({"quota": {"error": "", "metrics": [metric(SPOT, (0, {}))]}}, ["quota zero fail"]),
    ({"quota": {"error": "", "metrics": [metric(SPOT, (4, {}))]}}, ["quota small fail"]),
    ({"quota": {"error": "", "metrics": []}}, []),
    ({"quota": {"error": "not here", "metrics": []}}, []),
    (
        {"compute_api": {"error": "it is disabled", "remedy": "enable it"}},
        ["compute_api refuses fail"],
    ),
    (
        {"compute_api": {"error": "", "slices": 0, "unreachable": ["us-east1-d"]}},
        ["compute_api unreachable warn"],
    ),
    ({"wanted": [ON_COMPUTE], "quota": {"error": "not asked"}}, []),
    (
        {
            "wanted": [ON_COMPUTE],
            "compute_quota": {"error": "", "metrics": [metric(SPOT_CHIPS, (0, {}))]},
        },
        ["compute_quota zero fail"],
    ),
    (
        {
            "wanted": [ON_COMPUTE],
            "compute_quota": {"error": "", "metrics": [metric(SPOT_CHIPS, (4, {}))]},
        },
        ["compute_quota small fail"],
    ),
    ({"wanted": [ON_COMPUTE], "compute_quota": {"error": "not here"}}, []),
    (
        {
            "wanted": [{**ON_COMPUTE, "tier": "reserved"}],
            "compute_quota": {"error": "", "metrics": []},
        },
        [],
    ),
    ({"buckets": [{**BUCKET, "error": "there is none"}]}, ["buckets unreadable fail"]),
    ({"buckets": [bucket(location="US-EAST1")]}, ["buckets far fail"]),
    ({"buckets": [bucket(location="EU")]}, ["buckets multi_region warn"]),
    ({"buckets": [{**bucket(location="US-EAST1"), "zones": []}]}, []),
    ({"buckets": [bucket(softDeletePolicy=WEEK)]}, ["buckets soft_delete warn"]),
    ({"buckets": [{**bucket(softDeletePolicy=WEEK), "folders": []}]}, []),
    ({"buckets": [bucket(versioning={"enabled": True})]}, ["buckets versioning warn"]),
    ({"buckets": [{**BUCKET, "lacking": {}, "forbidden": []}]}, []),
    ({"buckets": [{**BUCKET, "lacking": {"default": ["r"]}}]}, ["buckets no_access warn"]),
    ({"buckets": [{**BUCKET, "forbidden": ["storage.objects.create"]}]}, ["buckets not_mine warn"]),
    ({"buckets": [bucket(storageClass="NEARLINE")]}, ["buckets storage_class warn"]),
    ({"buckets": [bucket(lifecycle={})]}, ["buckets no_abort warn"]),
    (
        {"buckets": [bucket(lifecycle={"rule": [BY_AGE, *bucket_settings.LIFECYCLE]})]},
        ["buckets deletes_checkpoints fail"],
    ),
]


@pytest.mark.parametrize(("changes", "cases"), CONTROLLER)
def test_the_controller(changes: dict[str, Any], cases: list[str]) -> None:
    assert bad(CHECKS, facts(**changes)) == {tuple(case.split()) for case in cases}


def test_a_local_cloud_needs_no_credentials_and_has_a_time_of_its_own() -> None:
    local = {"place": "loopback", "found": "", "error": "", "remedy": ""}
    assert bad(CHECKS, facts(credentials=local, api={**API, "ahead": 9000.0})) == set()


def login(said: str, code: int = 255) -> dict[str, Any]:
    return {"login": {"code": code, "said": said}}


# What OpenSSH says, word for word.
WAY: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    (
        login("ssh: connect to host 10.0.0.9 port 22: Connection refused"),
        ["ssh refused fail"],
    ),
    (
        login("ssh: connect to host 10.0.0.9 port 22: Connection timed out"),
        ["ssh timeout fail"],
    ),
    (login("no answer within 10 s"), ["ssh timeout fail"]),
    (login("ssh: connect to host 10.0.0.9 port 22: No route to host"), ["ssh no_route fail"]),
    (
        login("ssh: Could not resolve hostname x: Name or service not known"),
        ["ssh unresolved fail"],
    ),
    (login("ubuntu@10.0.0.9: Permission denied (publickey)."), ["ssh denied fail"]),
    (
        login("kex_exchange_identification: Connection closed by remote host"),
        ["ssh closed fail"],
    ),
    (
        login("@ WARNING: UNPROTECTED PRIVATE KEY FILE! @\nPermission denied (publickey)."),
        ["ssh key_unusable fail"],
    ),
    (login("something new"), ["ssh other fail"]),
    (
        login(
            "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n"
            "Host key verification failed."
        ),
        ["host_keys host_key_changed fail"],
    ),
    (
        login(
            "No ED25519 host key is known for tpu.1.0 and you have requested strict checking.\n"
            "Host key verification failed."
        ),
        ["host_keys host_key_unknown fail"],
    ),
    ({"reason": "host keys not published yet"}, ["host_keys not_published warn"]),
    ({"reason": "was preempted; tpu-fleet repair creates it again"}, ["state unusable fail"]),
    ({"maintenance": "MIGRATE at 12:00"}, ["state maintenance warn"]),
    ({"type": "v6e-8"}, ["state runtime fail"]),
]


@pytest.mark.parametrize(("changes", "cases"), WAY)
def test_the_way_to_a_worker(changes: dict[str, Any], cases: list[str]) -> None:
    found = {"worker": {**WORKER, **changes}}
    assert bad(WORKER_CHECKS, found) == {tuple(case.split()) for case in cases}


def test_a_login_that_succeeds_says_nothing_is_wrong_whatever_it_printed() -> None:
    assert ssh_case(0, "Connection refused") == ""


PACKAGES = {"python": "3.12.1", "packages": {"jax": "0.12.0", "numpy": "2.3"}}
SAID = {
    "venvs": {"jax": PACKAGES},
    "code": {"digits": "aaaa"},
    "runs": {"digits": {"definition": "d1", "attempt": 3}},
}


def slice_of(*said: dict[str, Any], workers: int = 0) -> dict[str, Any]:
    names = [f"w{number}" for number in range(workers or len(said))]
    return {"workers": names, "hosts": dict(zip(names, said)), "group": "tpu_slice_s"}  # noqa: B905


def with_ports(worker: int, *blocked: list[Any]) -> dict[str, Any]:
    """Return what a worker says that has tried the ports of run digits."""
    hosts, network = ["10.0.0.2", "10.0.0.3"], "lab"
    seen = {"worker": worker, "hosts": hosts, "network": network, "tried": 3}
    return {**SAID, "ports": {"digits": {**seen, "blocked": [*blocked]}}}


OTHER = {"python": "3.12.1", "packages": {"jax": "0.11.0", "numpy": "2.3"}}
SLICES: list[tuple[dict[str, Any], list[str], str]] = [
    (slice_of(SAID, SAID, SAID), [], ""),
    (slice_of(SAID), [], ""),
    (slice_of(workers=1), ["all_workers gone fail"], "w0"),
    (slice_of(SAID, SAID, workers=3), ["all_workers missing fail"], "w2"),
    (
        slice_of(SAID, {**SAID, "venvs": {"jax": OTHER}}, SAID),
        ["same_venvs differ fail"],
        "venv jax on w1 differs: jax 0.11.0 instead of 0.12.0",
    ),
    (
        slice_of({**SAID, "venvs": {}}, SAID, SAID),
        ["same_venvs differ fail"],
        "venv jax on w0 differs: it is missing",
    ),
    (
        slice_of(SAID, {**SAID, "code": {"digits": "bbbb"}}),
        ["same_code differ fail"],
        "code digits on w1 differs: bbbb instead of aaaa",
    ),
    (
        slice_of(SAID, {**SAID, "runs": {"digits": {"definition": "d2", "attempt": 3}}}),
        ["same_runs differ warn"],
        "another definition",
    ),
    (
        slice_of(with_ports(0), with_ports(1, [0, 8482, "timeout", "JAX's coordinator"])),
        ["worker_ports blocked fail"],
        "worker 1 cannot reach worker 0:8482 (JAX's coordinator): a firewall; a start hangs",
    ),
    # Of a worker that cannot be checked nothing is known.
    (
        slice_of(with_ports(1, [0, 8482, "timeout", ""]), workers=2),
        ["all_workers missing fail"],
        "w1",
    ),
    # They begin an attempt one after the other.
    (slice_of(SAID, {**SAID, "runs": {"digits": {"definition": "d1", "attempt": 4}}}), [], ""),
]


@pytest.mark.parametrize(("found", "cases", "words"), SLICES)
def test_a_slice(found: dict[str, Any], cases: list[str], words: str) -> None:
    assert bad(SLICE_CHECKS, found) == {tuple(case.split()) for case in cases}
    said = [row.says for row in examine(SLICE_CHECKS, found) if row.status in ("warn", "fail")]
    assert not cases or words in said[0]


def test_what_is_blocked_has_its_command() -> None:
    said = slice_of(with_ports(0), with_ports(1, [0, 8482, "timeout", ""]))
    (row,) = [row for row in examine(SLICE_CHECKS, said) if row.check == "worker_ports"]
    assert row.remedy == (
        "Open it, or choose another: gcloud compute firewall-rules create tpu-fleet-workers "
        "--network=lab --allow=tcp:8482 --source-ranges=10.0.0.0/24"
    )
    (row,) = [
        row
        for row in examine(SLICE_CHECKS, slice_of(with_ports(0), with_ports(1)))
        if row.check == "worker_ports"
    ]
    assert (row.status, row.subject, row.says) == ("ok", "digits", "6 tried")


def test_every_case_of_every_check_is_in_a_table() -> None:
    tables = [
        (CHECKS, CONTROLLER),
        (WORKER_CHECKS, WAY),
        (SLICE_CHECKS, [(found, cases) for found, cases, _words in SLICES]),
    ]
    for checks, table in tables:
        declared = {(check.key, name) for check in checks for name in check.cases}
        shown = {tuple(case.split()[:2]) for _changes, cases in table for case in cases}
        assert declared - shown == set()


@pytest.mark.parametrize(
    ("metrics", "limit"),
    [
        ([], None),
        ([metric("tpu.googleapis.com/tpu-v6e", (64, {}))], None),
        ([metric(SPOT, (64, {}))], 64),
        # The last bucket that fits is the most specific one.
        ([metric(SPOT, (64, {}), (8, {"zone": "europe-west4-a"}))], 8),
        ([metric(SPOT, (64, {}), (0, {"zone": "us-east1-d"}))], 64),
        ([metric(SPOT, (64, {}), (16, {"region": "europe-west4"}))], 16),
        ([metric(SPOT, (-1, {}))], None),
    ],
)
def test_which_quota_counts(metrics: list[dict[str, Any]], limit: int | None) -> None:
    assert limit_of(metrics, WISH) == limit


@pytest.mark.parametrize(
    ("tier", "metrics", "limit"),
    [
        ("spot", [metric(SPOT_CHIPS, (0, {}), (32, {"region": "europe-west4"}))], 32),
        ("spot", [metric(SPOT_CHIPS, (0, {}), (32, {"region": "us-east5"}))], 0),
        ("spot", [metric(FAMILIES, (32, {}))], None),
        ("spot", [metric(SPOT_CHIPS, (-1, {}))], -1),
        (
            "on_demand",
            [metric(FAMILIES, (0, {}), (8, {"tpu_family": "CT6E", "region": "europe-west4"}))],
            8,
        ),
        ("on_demand", [metric(FAMILIES, (8, {"tpu_family": "TPU7X"}))], None),
        # Where the preemptible one is missing or too small, flex-start has the other one.
        ("flex_start", [metric(SPOT_CHIPS, (0, {})), metric(FAMILIES, (16, {}))], 16),
        ("flex_start", [metric(SPOT_CHIPS, (64, {})), metric(FAMILIES, (0, {}))], 64),
    ],
)
def test_which_quota_of_compute_engine_counts(
    tier: str, metrics: list[dict[str, Any]], limit: int | None
) -> None:
    assert compute_limit_of(metrics, {**ON_COMPUTE, "tier": tier}) == limit


def test_a_quota_of_compute_engine_is_named_as_one_asks_for_it() -> None:
    zero = {"error": "", "metrics": [metric(SPOT_CHIPS, (0, {}))]}
    (row,) = [
        row
        for row in examine(CHECKS, facts(wanted=[ON_COMPUTE], compute_quota=zero))
        if row.status == "fail"
    ]
    assert "PREEMPTIBLE-TPU-V6E-per-project-region in europe-west4" in row.remedy


@pytest.mark.parametrize(
    ("generation", "tier", "names"),
    [
        ("v6e", "on_demand", ["TPUS-PER-TPU-FAMILY-per-project-region"]),
        ("v5p", "on_demand", ["TPU-V5P-per-project-region"]),
        ("v5p", "spot", ["PREEMPTIBLE-TPU-V5P-per-project-region"]),
        (
            "v6e",
            "flex_start",
            ["PREEMPTIBLE-TPU-V6E-per-project-region", "TPUS-PER-TPU-FAMILY-per-project-region"],
        ),
        ("tpu7x", "reserved", []),
        ("tpu7x", "calendar", []),
    ],
)
def test_the_names_of_quotas(generation: str, tier: str, names: list[str]) -> None:
    assert [one.name for one in quotas_of(generation, tier)] == names


def test_a_fleet_on_compute_engine_alone_needs_no_tpu_api() -> None:
    found = facts(wanted=[ON_COMPUTE])
    del found["api"], found["quota"]
    assert bad(CHECKS, found) == set()


def test_serving_has_a_quota_of_its_own() -> None:
    small = {**WISH, "generation": "v5e", "tier": "on_demand", "units": 4}
    serving = metric("tpu.googleapis.com/tpu-v5s-litepod-serving", (4, {}))
    training = metric("tpu.googleapis.com/tpu-v5s-litepod", (32, {}))
    assert limit_of([serving, training], small) == 4
    assert limit_of([serving, training], {**small, "units": 16}) == 32


def test_what_the_slices_want() -> None:
    declared = [
        {"name": "a", "accelerator_type": "v4-16"},
        {"name": "b", "accelerator_types": ["v6e-8"], "zones": ["x-a", "y-b"], "tier": "spot"},
        {"name": "c", "accelerator_type": "v99-8"},
        {"name": "d", "accelerator_type": "v5p-16", "zone": "us-east5-a", "tier": "spot"},
        {
            "name": "e",
            "machine_type": "ct6e-standard-4t",
            "topology": "4x4",
            "zone": "us-east5-a",
            "reservation": "ours",
        },
    ]
    grant = [
        {"zone": "us-central2-b", "generation": "v4", "tier": "on_demand", "chips": 8},
        {"zone": "us-east5-a", "generation": "v5p", "tier": "spot", "chips": 8, "api": "compute"},
    ]
    found = [
        (w["slice"], w["zone"], w["units"], w["tier"], w["api"])
        for w in wanted(declared, "us-central2-b", grant)
    ]
    assert found == [
        ("a", "us-central2-b", 16, "on_demand", "tpu"),
        ("b", "x-a", 8, "spot", "tpu"),
        ("b", "y-b", 8, "spot", "tpu"),
        # Of Compute Engine by the grant; there chips count, not cores.
        ("d", "us-east5-a", 8, "spot", "compute"),
        ("e", "us-east5-a", 16, "reserved", "compute"),
    ]


def row(status: str, check: str = "disk") -> dict[str, str]:
    empty = {"subject": "", "remedy": "do it", "case": "", "fix": ""}
    return {"check": check, "status": status, "says": f"{check} is {status}", **empty}


def test_what_cannot_be_looked_at_is_a_row_and_hides_nothing() -> None:
    asked = [{"host": f"pair-w{n}", "slice": "pair"} for n in (10, 9, 2)]
    controller = {"findings": [row("ok", "api")], "workers": {"pair-w9": [row("fail", "ssh")]}}
    answers: dict[str, Any] = {
        "pair-w2": {"findings": [row("ok")], "compare": SAID, "fixed": []},
        "pair-w10": {"failed": True, "msg": "/usr/bin/python3: not found\nand more"},
    }
    found = report(controller, answers, asked)
    hosts = list(dict.fromkeys(line["host"] for line in found["rows"]))
    assert hosts == ["controller", "pair-w2", "pair-w9", "pair-w10", "pair"]
    assert (found["status"], found["exit_code"]) == ("fail", 2)
    (failed,) = [line for line in found["rows"] if line["check"] == "doctor"]
    assert failed["says"] == "could not be checked: /usr/bin/python3: not found and more"
    assert "pair-w9, pair-w10 of 3 workers cannot" in str(found["rows"])
    assert found["lines"][-1] == "3 fail, 0 to look at, 2 ok, 4 skipped"


def test_a_controller_that_cannot_look_is_a_row_too() -> None:
    found = report({"failed": True, "msg": "requests is missing"}, {}, [])
    assert found["exit_code"] == 2
    assert "requests is missing" in found["rows"][0]["says"]


def test_all_is_well() -> None:
    asked = [{"host": "solo", "slice": "solo"}]
    answers = {"solo": {"findings": [row("ok")], "compare": SAID}}
    found = report({"findings": [row("ok")], "workers": {}}, answers, asked)
    assert found["exit_code"] == 0


def test_trouble_of_a_run_is_one_row_that_names_the_workers() -> None:
    asked = [{"host": f"pair-w{number}", "slice": "pair"} for number in range(6)]
    asked.append({"host": "solo", "slice": "solo"})

    def trouble(case: str, says: str, check: str = "runs", run: str = "oom") -> dict[str, str]:
        return {**row("fail", check), "subject": run, "case": case, "says": says}

    nan = trouble("trouble", "run nan: loss is NaN since step 121", "loss", "nan")
    first = trouble("failed", "run oom has failed (exit code 1: RuntimeError)")
    other = trouble("failed", "run oom has failed (ended by signal 15)")
    disk = trouble("full", "the disk is full", "disk", "")
    findings = {
        "pair-w0": [first, nan, disk],
        **{f"pair-w{number}": [other, nan, disk] for number in range(1, 6)},
        "solo": [first],
    }
    answers = {host: {"findings": found, "compare": SAID} for host, found in findings.items()}
    found = report({"findings": [row("ok", "api")], "workers": {}}, answers, asked)
    six = ", ".join([*findings][:6])
    about = [
        (one["host"], one["says"]) for one in found["rows"] if one["check"] in ("runs", "loss")
    ]
    assert about == [
        (
            six,
            "run oom has failed (exit code 1: RuntimeError); on pair-w1, pair-w2, pair-w3, pair-w4 "
            "and 1 more: run oom has failed (ended by signal 15)",
        ),
        (six, nan["says"]),
        ("solo", first["says"]),
    ]
    assert [one["host"] for one in found["rows"] if one["check"] == "disk"] == [six]


def test_equal_trouble_is_one_row_with_the_workers_and_a_remedy_for_all() -> None:
    def disk(host: str, free: int = 1) -> dict[str, str]:
        return {**row("warn"), "says": f"{free} GB free", "remedy": f"Run: x --limit {host}"}

    hosts = ["pair-w0", "pair-w1", "solo"]
    asked = [{"host": host, "slice": host.partition("-")[0]} for host in hosts]

    def rows(**free: int) -> list[tuple[str, str]]:
        answers = {
            host: {"findings": [disk(host, free.get(host, 1)), row("ok")], "compare": SAID}
            for host in hosts
        }
        found = report({"findings": [row("ok", "api")], "workers": {}}, answers, asked)
        assert len([one for one in found["rows"] if one["status"] == "ok"]) > len(hosts)
        bad = [one for one in found["rows"] if one["status"] == "warn"]
        assert found["lines"][-1].startswith(f"0 fail, {len(bad)} to look at")
        assert all(one["host"] == ", ".join(one["hosts"]) for one in found["rows"])
        return [(one["host"], one["remedy"]) for one in bad]

    everywhere = "Run: x --limit pair-w0,pair-w1,solo"
    assert rows() == [("pair-w0, pair-w1, solo", everywhere)]
    assert rows(solo=2) == [
        ("pair-w0, pair-w1", "Run: x --limit tpu_slice_pair"),
        ("solo", "Run: x --limit solo"),
    ]


def test_a_remedy_for_a_run_on_several_slices_names_each_worker() -> None:
    asked = [{"host": host, "slice": host[:4]} for host in ("pair-w0", "pair-w1", "solo")]

    def trouble(host: str) -> dict[str, str]:
        remedy = f"Run: x --limit {host}"
        return {**row("fail", "runs"), "subject": "a", "case": "no_agent", "remedy": remedy}

    answers = {one["host"]: {"findings": [trouble(one["host"])], "compare": SAID} for one in asked}
    found = report({"findings": [row("ok", "api")], "workers": {}}, answers, asked)
    [one] = [one for one in found["rows"] if one["check"] == "runs"]
    assert one["hosts"] == ["pair-w0", "pair-w1", "solo"]
    assert one["remedy"] == "Run: x --limit pair-w0,pair-w1,solo"


def test_a_worker_on_which_a_run_is_well_is_not_named() -> None:
    asked = [{"host": f"pair-w{number}", "slice": "pair"} for number in range(2)]
    well = {**row("ok", "runs"), "subject": "a", "says": "running, attempt 1"}
    bad = {**row("fail", "runs"), "subject": "a", "case": "no_agent", "says": "no agent"}
    answers = {
        "pair-w0": {"findings": [well], "compare": SAID},
        "pair-w1": {"findings": [bad], "compare": SAID},
    }
    found = report({"findings": [row("ok")], "workers": {}}, answers, asked)
    rows = [(one["host"], one["says"]) for one in found["rows"] if one["check"] == "runs"]
    assert rows == [("pair-w0", "running, attempt 1"), ("pair-w1", "no agent")]


def said_of(one: dict[str, Any]) -> list[str]:
    rows = [row for row in examine(CHECKS, facts(buckets=[one])) if row.check == "buckets"]
    return [f"{row.says}. {row.remedy}" for row in rows]


def test_what_deleted_checkpoints_cost_is_said() -> None:
    [said] = said_of(bucket(softDeletePolicy=WEEK))
    # 168 of 100 GB, at two cents each.
    assert "keeps each deleted checkpoint for 7 days and bills it" in said
    assert "about 168 of them, 16,800.0 GB, which is $336.00 a month" in said
    assert "gcloud storage buckets update gs://b --soft-delete-duration=0" in said
    [said] = said_of({**bucket(softDeletePolicy=WEEK), "saves": []})
    assert "at $0.02 a month for a gigabyte" in said
    [said] = said_of({**bucket(softDeletePolicy=WEEK), "location": "MARS-EAST1"})
    assert "their price is not known here" in said
    [said] = said_of(bucket(versioning={"enabled": True}))
    assert "stays for good" in said
    assert "about 720 of them, 72,000.0 GB, which is $1,440.00 a month" in said


def test_the_pace_of_a_run_is_that_of_its_whole_checkpoints() -> None:
    whole = [Checkpoint(str(n), n, WHOLE, at=n * 600.0, size=n) for n in (1, 2, 4)]
    half = Checkpoint("9", 9, UNFINISHED, at=5400.0, size=9)
    assert pace([half, *reversed(whole)]) == {"bytes": 4.0, "seconds": 900.0}
    assert pace([half, whole[0]]) is None


@pytest.mark.parametrize(
    ("allowed", "policy", "found"),
    [
        ([], error(403, "PERMISSION_DENIED"), {"forbidden": [*SUBMITS]}),
        ([*SUBMITS], {"bindings": []}, {"forbidden": [], "lacking": {"user:a@lab.example": READS}}),
        ([*SUBMITS], {"bindings": [{"role": role, "members": ["user:a@lab.example"]}
                                   for role in READS]}, {"forbidden": [], "lacking": {}}),
    ],
)  # fmt: skip
def test_what_of_access_may_be_seen(allowed: list[str], policy: Any, found: dict[str, Any]) -> None:
    resource = {"name": "b", "location": "US", "projectNumber": "42"}

    def answer(call: Call) -> Any:
        if call.path.endswith("/testPermissions"):
            return {"permissions": allowed}
        return policy if call.path.endswith("/iam") else resource

    asked = {"name": "b", "zones": [], "folders": [], "access": {"readers": ["user:a@lab.example"]}}
    client, _clock = client_with(FakeSession(answer=answer))
    seen = remote.bucket(GoogleApis(client), asked)
    assert {key: seen[key] for key in ("forbidden", "lacking") if key in seen} == found
