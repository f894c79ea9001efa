"""Wrong input ends with a message that says what is wrong and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from emulator import Emulator

NODE = {"name": "n", "zone": Emulator.zone, "accelerator_type": "v4-8", "wait_sleep": 0.05}

both_modes = pytest.mark.parametrize("check", [True, False], ids=["check", "real"])


def test_no_credentials(module: Any, tmp_path: Path) -> None:
    """Nothing is sent: the credentials are missed before the first request."""
    env = {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": "https://tpu.googleapis.com/",
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
        "NO_GCE_CHECK": "true",
        "PATH": f"{Path(__file__).resolve().parents[3] / '.venv/bin'}:/nowhere",
    }
    result = module("tpu_vm", NODE, env=env)
    assert result["kind"] == "credentials"
    assert result["msg"].startswith("There are no credentials")
    assert result["remedy"] == "Run: gcloud auth application-default login"


def test_credentials_that_are_not_accepted(cloud: Emulator, module: Any) -> None:
    cloud.fault("unauthenticated")
    result = module("tpu_vm", {**NODE, "access_token": "old"})
    assert result["kind"] == "credentials"
    assert result["http_status"] == 401
    assert "gcloud auth application-default login" in result["msg"]


def test_credentials_for_a_strange_endpoint(module: Any) -> None:
    args = {**NODE, "access_token": "token-of-mine", "api_endpoint": "https://api.example/"}
    result = module("tpu_vm", args)
    assert result["kind"] == "credentials"
    assert "are not sent to https://api.example/" in result["msg"]


@both_modes
def test_wrong_project(module: Any, check: bool) -> None:
    result = module("tpu_vm", {**NODE, "project": "someone-elses"}, check=check)
    assert result["kind"] == "permission"
    assert "denied on 'projects/someone-elses/" in result["msg"]
    assert "If someone-elses is the right project, run: gcloud" in result["remedy"]


def test_no_project(module: Any) -> None:
    result = module("tpu_vm", NODE, env={"GOOGLE_CLOUD_PROJECT": "", "CLOUDSDK_CORE_PROJECT": ""})
    assert "There is no project." in result["msg"]


@both_modes
def test_api_disabled(cloud: Emulator, module: Any, check: bool) -> None:
    cloud.fault("api_disabled")
    result = module("tpu_vm", NODE, check=check)
    assert (result["kind"], result["flavour"]) == ("permission", "api_disabled")
    enable = f"gcloud services enable tpu.googleapis.com --project={cloud.project}"
    assert result["remedy"] == f"Run: {enable}"


@both_modes
def test_unknown_zone(module: Any, check: bool) -> None:
    result = module("tpu_vm", {**NODE, "zone": "us-moon1-a"}, check=check)
    assert result["rc"] != 0
    assert "us-moon1-a" in result["msg"]
    assert "gcloud compute tpus locations list" in result["remedy"]


@both_modes
def test_unknown_accelerator_type(module: Any, check: bool) -> None:
    result = module("tpu_vm", {**NODE, "accelerator_type": "v9-8"}, check=check)
    assert result["kind"] == "bad_request"
    assert "v9-8" in result["msg"]
    assert "gcloud compute tpus accelerator-types list" in result["remedy"]


@both_modes
def test_wrong_runtime_for_the_type(cloud: Emulator, module: Any, check: bool) -> None:
    result = module("tpu_vm", {**NODE, "runtime_version": "v2-alpha-tpuv6e"}, check=check)
    assert result["kind"] == "bad_request"
    assert "v2-alpha-tpuv6e does not fit the accelerator type v4-8" in result["msg"]
    assert "tpu-ubuntu2204-base" in result["remedy"]


def test_no_endpoint(module: Any) -> None:
    result = module("tpu_vm_info", {"api_endpoint": "http://127.0.0.1:9/"})
    assert result["kind"] == "unavailable"
    assert "http://127.0.0.1:9/ does not answer" in result["msg"]
    assert "Connection refused" in result["msg"]
