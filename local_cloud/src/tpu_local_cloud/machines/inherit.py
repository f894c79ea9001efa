"""Settings of machines: those of this computer for registries, and for the cloud's buckets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
_CA_FOLDERS = ("/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors")
_CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")
# Libraries for Cloud Storage that look nowhere else. In requests, gRPC and gcloud.
_STORAGE_VARIABLES = (
    "REQUESTS_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
)
_PASSED_ON = re.compile(
    r"^(PIP_(EXTRA_)?INDEX_URL|UV_(DEFAULT_INDEX|INDEX|INDEX_URL)|NO_PROXY"
    r"|HTTPS?_PROXY)$",
    re.IGNORECASE,
)


def apt_files() -> dict[str, str]:
    """Return the files of /etc/apt that name this computer's package sources."""
    folder = Path("/etc/apt")
    paths = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    return {path.name: path.read_text() for path in paths if path.is_file()}


def own_sources(texts: Mapping[str, str], codename: str) -> dict[str, str]:
    """Return the package sources for this release, from the files of /etc/apt.

    Sources of other vendors, which are named after products, are left out.
    """
    suite = re.compile(rf"^{re.escape(codename)}(-updates|-security|/updates)?$")
    chosen = {}
    for name, text in texts.items():
        if name.endswith(".sources"):
            kept = [part for part in re.split(r"\n\s*\n", text) if _stanza_fits(part, suite)]
            joined = "\n\n".join(kept)
        else:
            kept = [line for line in text.splitlines() if _line_fits(line, suite)]
            joined = "\n".join(kept)
        if kept:
            chosen[name] = joined.strip() + "\n"
    return chosen


def _stanza_fits(stanza: str, suite: re.Pattern[str]) -> bool:
    fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", stanza, re.MULTILINE))
    suites = fields.get("Suites", "").split()
    return (
        "deb" in fields.get("Types", "").split()
        and fields.get("Enabled", "yes").lower() not in ("no", "false", "0")
        and bool(suites)
        and all(suite.match(name) for name in suites)
    )


def _line_fits(line: str, suite: re.Pattern[str]) -> bool:
    fields = re.sub(r"\[[^]]*\]", "", line).split()
    return len(fields) >= 4 and fields[0] == "deb" and bool(suite.match(fields[2]))


def authorities() -> dict[str, bytes]:
    """Return the certificates added to this computer's trusted authorities."""
    found = {}
    for folder in _CA_FOLDERS:
        for path in sorted(Path(folder).glob("**/*")):
            if path.is_file() and path.suffix in (".crt", ".pem"):
                found[f"{path.stem}.crt"] = path.read_bytes()
    return found


def environment(own_authorities: bool, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that machines need: for buckets, and because this computer does."""
    names = (*_STORAGE_VARIABLES, *(_CA_VARIABLES if own_authorities else ()))
    chosen = dict.fromkeys(names, _BUNDLE)
    for name, value in sorted(variables.items()):
        local = "://localhost" in value or "://127." in value or value.startswith(("/", "file:"))
        if _PASSED_ON.match(name) and value and not local:
            chosen[name] = value
    return chosen


def settings_files(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the files that give `variables` to logins, sudo, services and pip."""
    pairs = [f"{name}={value}" for name, value in variables.items()]
    files = {
        "etc/environment": "".join(f"{pair}\n" for pair in pairs),
        "etc/sudoers.d/10-environment": f'Defaults env_keep += "{" ".join(variables)}"\n',
        "etc/systemd/system.conf.d/10-environment.conf": "[Manager]\nDefaultEnvironment="
        + " ".join(f'"{pair}"' for pair in pairs)
        + "\n",
    }
    if "PIP_CERT" in variables:
        files["etc/pip.conf"] = f"[global]\ncert = {_BUNDLE}\n"
    return files
