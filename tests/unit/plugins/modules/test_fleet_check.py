from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tpu.fleet.plugins.modules import fleet_check


def run(capsys: pytest.CaptureFixture[str], **options: Any) -> tuple[int, dict[str, Any]]:
    with patch_module_args(options), pytest.raises(SystemExit) as stopped:
        fleet_check.main()
    code = stopped.value.code
    assert isinstance(code, int)
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, result


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_good_file_passes(capsys: pytest.CaptureFixture[str], check_mode: bool) -> None:
    slices = [{"name": "solo", "accelerator_type": "v4-8", "zone": "us-central2-b"}]
    code, result = run(
        capsys,
        fleet_slices=slices,
        fleet_allocations="unrestricted",
        _ansible_check_mode=check_mode,
    )
    assert code == 0
    assert not result["changed"]
    assert result["problems"] == []


def test_all_problems_of_a_bad_file_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    twice = {"name": "solo", "accelerator_type": "v4-9", "zone": "us-central2-b"}
    code, result = run(
        capsys,
        fleet_slices=[twice, twice],
        fleet_allocations="unrestricted",
        user_accounts_users="alice",
        variable_names=["fleet_slcies"],
    )
    assert code == 1
    assert [problem["field"] for problem in result["problems"]] == [
        "user_accounts_users",
        "fleet_slices[1].name",
        "fleet_slices[0].accelerator_type",
        "fleet_slices[1].accelerator_type",
        "fleet_slcies",
    ]
    assert "has 5 problems" in result["msg"]
    assert "Did you mean fleet_slices?" in result["msg"]
    assert set(result["problems"][0]) == {"field", "value", "message", "remedy"}


@pytest.mark.parametrize("user", ["root", "nobody-knows"])
def test_the_environment_of_a_run_is_neither_logged_nor_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    logged: list[str] = []
    monkeypatch.setattr(AnsibleModule, "log", lambda _self, text, **_more: logged.append(text))
    run_entry = {"name": "r", "slices": [], "user": user, "command": "x", "env": {"TOKEN": "hush"}}
    _code, result = run(capsys, training_run_runs=[run_entry])
    assert "hush" not in json.dumps([result, logged])


def test_a_grant_that_is_over_is_a_warning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(AnsibleModule, "warn", lambda _self, text, **_more: told.append(text))
    entry = {"zone": "us-central2-b", "generation": "v4", "tier": "spot", "chips": 4}
    code, _result = run(capsys, fleet_allocations=[{**entry, "ends": "2020-01-01"}, entry])
    assert code == 0
    (warning,) = told
    assert "until 2020-01-01" in warning
