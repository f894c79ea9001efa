"""A client of Compute Engine whose answers are checked against Google's discovery document."""

from __future__ import annotations

from typing import Any

import requests
from discovery import check, response_of
from emulator import Emulator

from tpu_local_cloud.model.shared.schema import COMPUTE

HERE = "projects/local-project"
LINK = f"https://www.googleapis.com/compute/v1/{HERE}"
FAMILY = "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"
IMAGE = f"projects/ubuntu-os-accelerator-images/global/images/family/{FAMILY}"
BOOT = {"boot": True, "autoDelete": True, "initializeParams": {"sourceImage": IMAGE}}


class ComputeClient:
    """A client of one cloud's Compute Engine."""

    def __init__(self, cloud: Emulator) -> None:
        self.cloud = cloud
        self.base = f"{cloud.url}compute/v1/{HERE}/"

    def ask(self, method: str, path: str, body: Any = None, **query: str) -> requests.Response:
        """Ask; a whole answer has the form that Google's discovery document says."""
        answer = requests.request(method, self.base + path, json=body, params=query, timeout=60)
        if answer.status_code == 200 and "fields" not in query:
            check(COMPUTE, response_of(COMPUTE, method, f"{HERE}/{path}"), answer.json())
        return answer

    def get(self, path: str, **query: str) -> Any:
        answer = self.ask("GET", path, **query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, **query: str) -> Any:
        answer = self.ask("POST", path, body, **query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def delete(self, path: str) -> Any:
        answer = self.ask("DELETE", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, method: str, path: str, body: Any = None, **query: str) -> tuple[int, str]:
        answer = self.ask(method, path, body, **query)
        error = answer.json()["error"]
        assert error["errors"][0]["message"] == error["message"]
        return answer.status_code, error["message"]
