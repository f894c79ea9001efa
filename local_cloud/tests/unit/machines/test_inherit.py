"""What machines take over from the computer they run on."""

from __future__ import annotations

from tpu_local_cloud.machines.inherit import environment, own_sources, settings_files

DEB822 = """\
Types: deb
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
"""


def test_only_sources_of_the_release_itself_are_used() -> None:
    texts = {
        "debian.sources": DEB822,
        "vendor.sources": "Types: deb\nURIs: https://vendor.example\nSuites: nodistro\n",
        "off.sources": DEB822.replace("Types: deb", "Enabled: no\nTypes: deb"),
        "sources.list": (
            "# deb http://mirror.example/debian bookworm main\n"
            "deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian bookworm main\n"
            "deb-src http://mirror.example/debian bookworm main\n"
            "deb http://mirror.example/debian bookworm-backports main\n"
        ),
        "sdk.list": "deb https://vendor.example/apt sdk-bookworm main\n",
        "README": "nothing",
    }
    chosen = own_sources(texts, "bookworm")
    assert sorted(chosen) == ["debian.sources", "sources.list"]
    assert chosen["debian.sources"].count("Types: deb") == 2
    assert chosen["sources.list"].count("\n") == 1
    assert "signed-by" in chosen["sources.list"]


def test_a_computer_of_another_release_has_none() -> None:
    assert own_sources({"debian.sources": DEB822}, "trixie") == {}


def test_own_authorities_reach_every_program_that_has_a_list_of_its_own() -> None:
    variables = environment(True, {})
    assert variables["SSL_CERT_FILE"] == variables["PIP_CERT"]
    files = settings_files(variables)
    assert "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt\n" in files["etc/environment"]
    assert "PIP_CERT" in files["etc/sudoers.d/10-environment"]
    assert files["etc/systemd/system.conf.d/10-environment.conf"].startswith("[Manager]\n")
    assert "cert = " in files["etc/pip.conf"]


BUCKETS = dict.fromkeys(
    (
        "REQUESTS_CA_BUNDLE",
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
        "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    ),
    "/etc/ssl/certs/ca-certificates.crt",
)


def test_an_ordinary_computer_adds_what_buckets_need_and_no_more() -> None:
    found = environment(False, {"HOME": "/root", "PIP_CERT": "/x"})
    assert found == BUCKETS
    assert "etc/pip.conf" not in settings_files(found)


def test_an_index_is_passed_on_unless_it_is_on_this_computer_alone() -> None:
    variables = {
        "UV_DEFAULT_INDEX": "https://index.example/simple",
        "PIP_EXTRA_INDEX_URL": "file:///opt/index",
        "HTTPS_PROXY": "http://127.0.0.1:3128",
        "http_proxy": "http://proxy.example:3128",
    }
    assert environment(False, variables) == {
        **BUCKETS,
        "UV_DEFAULT_INDEX": "https://index.example/simple",
        "http_proxy": "http://proxy.example:3128",
    }
