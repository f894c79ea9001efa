"""The fleets of the guides' five authors, one after the other, each looked at as its author would.

Their files are in tests/machines/lab/guides: what a newcomer writes, and what the authors have on
GitHub. Two things are elsewhere: torch_xla, which is several gigabytes, in
tests/machines/torch_xla, and NFS, for which machines need a kernel of their own, in
tests/machines/nfs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from fleet import wait_until
from guides import Guide, Guides
from laptop import Laptop, maintain, without_gcloud

SECRETS = {
    "GITHUB_TOKEN": "ghp_the_researcher",
    "WANDB_API_KEY": "canary-wandb-77e0d1",
    "AWS_ACCESS_KEY_ID": "AKIACANARYG81D",
    "AWS_SECRET_ACCESS_KEY": "canary-aws-9b4c02",
}
DAY = 86400


@pytest.fixture(scope="session")
def guides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guides]:
    """One cloud for all of them."""
    guides = Guides(tmp_path_factory.mktemp("guides"))
    try:
        guides.begin()
        yield guides
    finally:
        guides.end()


@pytest.fixture(scope="class")
def icl(guides: Guides) -> Iterator[Guide]:
    icl = guides.guide("icl", "matt")
    icl.env.update(SECRETS)
    names = ("timaeus-research/icl", "timaeus-research/devinterp")
    github = {
        "accounts": [{"token": SECRETS["GITHUB_TOKEN"], "login": "matt"}],
        "repositories": [{"name": name, "admins": ["matt"]} for name in names],
    }
    icl.api("POST", "_cloud/github", github)
    icl.import_grant(time.strftime("%Y-%m-%d", time.gmtime()))
    with icl.holding(guides.elsewhere):
        yield icl


class TestIcl:
    """A researcher trains with the private code of the group on one TPU."""

    HOST = "tpu2a"

    def test_zsh_neovim_and_dotfiles(self, icl: Guide) -> None:
        told = icl.as_user(
            "matt", self.HOST, "echo $0; zsh -ic 'echo $EDITOR; alias gs; which nvim'"
        )
        assert "zsh" in told.splitlines()[0]
        assert told.split("\n")[1:4] == ["nvim", "gs='git status'", "/usr/bin/nvim"]
        assert icl.as_user("matt", self.HOST, "sudo -n whoami") == "root\n"

    def test_private_clones_on_the_branch_that_was_asked_for(self, icl: Guide) -> None:
        who = "git config user.name; git config user.email; git config pull.rebase"
        told = icl.as_user("matt", self.HOST, who).splitlines()
        assert told == ["Matthew Farrugia-Roberts", "m@far.in.net", "false"]
        look = "cd devinterp; git branch --show-current; git pull -q; ls devinterp"
        told = icl.as_user("matt", self.HOST, look).split()
        assert told[0] == "add/slt-1"
        assert "slt.py" in told
        # By hand it works as well, there and back.
        clone = "git clone -q git@github.com:timaeus-research/icl.git by-hand && cd by-hand"
        commit = "git commit -q --allow-empty -m Try && git log -1 --format=%an"
        push = "git push -q origin HEAD:refs/heads/try"
        told = icl.as_user("matt", self.HOST, f"{clone} && {commit} && {push}")
        assert told == "Matthew Farrugia-Roberts\n"

    def test_an_editable_install_of_that_branch(self, icl: Guide) -> None:
        where = "python -c 'import devinterp.slt; print(devinterp.slt.__file__)'"
        told = icl.as_user("matt", self.HOST, f'zsh -lc "{where}; readlink -f ~/devinterp"')
        module, folder = told.split()
        assert module == f"{folder}/devinterp/slt.py"

    def test_wandb_and_aws(self, icl: Guide) -> None:
        for look in ("zsh -lc env", "cat .netrc"):
            assert SECRETS["WANDB_API_KEY"] in icl.as_user("matt", self.HOST, look)
        aws = icl.as_user(
            "matt", self.HOST, "stat -c '%a %U' .aws/credentials; cat .aws/credentials"
        )
        assert aws.startswith("600 matt\n")
        assert SECRETS["AWS_SECRET_ACCESS_KEY"] in aws
        icl.trains(self.HOST, "icl", attempt=1)
        pid = icl.status(self.HOST, "icl")["pid"]
        environ = icl.ssh(self.HOST, f"sudo cat /proc/{pid}/environ | tr '\\0' '\\n'")
        assert f"WANDB_API_KEY={SECRETS['WANDB_API_KEY']}" in environ
        # Not by the word itself, which sudo would write into its log.
        token = SECRETS["GITHUB_TOKEN"].replace("ghp", "gh[p]")
        assert icl.ssh(self.HOST, f"sudo grep -rl '{token}' /etc /home /var || true") == ""

    def test_a_detached_run_resumes_after_a_kill_and_a_maintenance(self, icl: Guide) -> None:
        _begun, before = icl.trains(self.HOST, "icl", attempt=1)
        icl.kill(self.HOST, "icl")
        begun, now = icl.trains(self.HOST, "icl", attempt=2)
        assert begun >= before
        maintain(icl, self.HOST, 0)
        icl.play("tpu.fleet.reprovision")
        assert icl.trains(self.HOST, "icl", attempt=3)[0] >= now

    def test_a_notebook_through_a_tunnel(self, icl: Guide) -> None:
        with icl.tunnel("notebook-matt") as url:
            assert "version" in requests.get(f"{url}/api", timeout=60).json()


@pytest.fixture(scope="class")
def lab(guides: Guides) -> Iterator[Guide]:
    with guides.guide("lab", "awilf", "milo").holding(guides.elsewhere) as lab:
        yield lab


@pytest.fixture(scope="class")
def laptops(lab: Guide, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Laptop]:
    """Their computers, with the folders that they were sent."""
    found = {}
    for person in ("awilf", "milo"):
        found[person] = Laptop(tmp_path_factory.mktemp(person), lab.keys / person)
        found[person].unpack(lab.folder / "state" / "onboarding" / person)
    return found


class TestLab:
    """An admin lets a collaborator in, on a TPU of their own."""

    def test_the_admin_is_everywhere_and_the_collaborator_on_tpu5(
        self, lab: Guide, laptops: dict[str, Laptop]
    ) -> None:
        for host in ("tpu4", "tpu5"):
            assert laptops["awilf"].who(host).startswith("awilf@")
            assert lab.as_user("awilf", host, "sudo -n whoami") == "root\n"
        assert laptops["milo"].who("tpu5").startswith("milo@")
        assert "tpu4" not in (laptops["milo"].ssh_folder / "tpu-fleet" / "config").read_text()
        lab.as_user("milo", "tpu4", "true", ok=False)

    def test_sudo_is_what_is_listed_and_there_are_no_passwords(self, lab: Guide) -> None:
        assert "apt-get" in lab.as_user("milo", "tpu5", "sudo -n -l")
        assert "apt " in lab.as_user("milo", "tpu5", "sudo -n /usr/bin/apt-get --version")
        lab.as_user("milo", "tpu5", "sudo -n whoami", ok=False)
        assert lab.as_user("awilf", "tpu5", "sudo -n passwd -S milo").split()[1] in ("L", "LK")

    def test_a_disk_is_written_once_and_then_read_on_both(self, lab: Guide) -> None:
        lab.as_user("awilf", "tpu4", "echo frames > /ssd/tvqa")
        for old, new in (
            ("read_only: false", "read_only: true"),
            ("slices: [tpu4]", "slices: [tpu4, tpu5]"),
        ):
            lab.edit(old, new)
        lab.play("site.yml")
        for person, host in (("awilf", "tpu4"), ("milo", "tpu5")):
            assert lab.as_user(person, host, "cat /ssd/tvqa") == "frames\n"
            lab.as_user(person, host, "sudo -n touch /ssd/more || touch /ssd/more", ok=False)
            assert "ro," in lab.as_user(person, host, "findmnt -no OPTIONS /ssd")

    def test_an_external_address_that_changes(
        self, lab: Guide, laptops: dict[str, Laptop], tmp_path: Path
    ) -> None:
        programs = {"PATH": without_gcloud(tmp_path)}
        maintain(lab, "tpu5", 0)
        # Who has another machine is told by that; who has this one only is told whom to ask.
        there = wait_until(
            "tpu5",
            lambda: "awilf@" in (who := laptops["awilf"].who("tpu5", **programs)) and who,
            60,
        )
        lost = laptops["milo"].ssh("tpu5", "true", **programs)
        assert lost.returncode == 255
        assert "ask for a new folder" in lost.stderr
        lab.play("tpu.fleet.onboarding")
        laptops["milo"].unpack(lab.folder / "state" / "onboarding" / "milo")
        assert laptops["milo"].who("tpu5", **programs) == there.replace("awilf", "milo")
        # And the disk is there again.
        assert lab.as_user("milo", "tpu5", "cat /ssd/tvqa") == "frames\n"


@pytest.fixture(scope="class")
def ayaka(guides: Guides) -> Iterator[Guide]:
    with guides.guide("ayaka").holding(guides.elsewhere) as ayaka:
        yield ayaka


class TestAyaka:
    """A TPU and a pod in two zones are set up alike, and used by one command."""

    HOSTS = ("node-1", "node-3-w0", "node-3-w1")

    def everywhere(self, ayaka: Guide, command: str, *words: str) -> dict[str, str]:
        """Run a command on all workers; return what each of them said."""
        told = ayaka.report("tpu-fleet", "exec", "--json", *words, "--", command)
        return {one["worker"]: one["stdout"] for one in told["workers"]}

    def test_tools_shell_and_time_zone(self, ayaka: Guide) -> None:
        tools = "which go neofetch zsh mosh byobu aria2c | wc -l; date +%Z"
        told = self.everywhere(ayaka, tools)
        assert told == dict.fromkeys(self.HOSTS, "6\nHKT\n")
        for host in self.HOSTS:
            theme = ayaka.as_user("ayaka", host, "echo $0; zsh -ic 'echo $ZSH_THEME'").split()
            assert "zsh" in theme[0]
            assert theme[1] == "robbyrussell"

    def test_jax_on_all_workers(self, ayaka: Guide) -> None:
        devices = "~/.venv/bin/python -c 'import jax; print(jax.devices())'"
        told = self.everywhere(ayaka, devices, "--user", "ayaka")
        assert set(told) == set(self.HOSTS)
        assert all("CpuDevice" in said for said in told.values())

    def test_the_pod_trains_as_one_through_a_maintenance(self, ayaka: Guide) -> None:
        _begun, before = ayaka.trains("node-3-w0", "pmean", attempt=1)
        assert "on 2 workers" in ayaka.log("node-3-w1", "pmean")
        maintain(ayaka, "node-3", 0)
        ayaka.play("tpu.fleet.provision")
        assert ayaka.trains("node-3-w0", "pmean", attempt=2)[0] >= before

    def test_tensorboard_through_a_tunnel_and_from_nowhere_else(self, ayaka: Guide) -> None:
        with ayaka.tunnel("tensorboard-pmean") as url:
            answer = requests.get(url, timeout=60)
            assert answer.status_code == 200
            assert "TensorBoard" in answer.text
        address = ayaka.cloud()["node-3"]["workers"][0]["external_ip"]
        with pytest.raises(requests.ConnectionError):
            requests.get(f"http://{address}:6006", timeout=10)

    def test_mosh_is_let_in_from_here(self, ayaka: Guide) -> None:
        rule = ayaka.api("GET", "compute/v1/projects/local-project/global/firewalls/tpu-fleet-mosh")
        assert rule["targetTags"] == ["mosh"]
        assert rule["allowed"] == [{"IPProtocol": "udp", "ports": ["60000-61000"]}]
        seen = ayaka.ssh("node-1", "echo ${SSH_CONNECTION%% *}").strip()
        assert rule["sourceRanges"] == [f"{seen}/32"]

    def test_a_lock_file_of_the_dead_goes(self, ayaka: Guide) -> None:
        lock = "/tmp/libtpu_lockfile"  # noqa: S108
        ayaka.as_user("ayaka", "node-1", f"install -m 644 /dev/null {lock}")
        words = ("tpu-fleet", "doctor", "--json", "--timeout", "240", "--limit", "node-1")
        # The machine has other findings too: their exit codes are not those of this test.
        found = ayaka.report(*words, codes=(0, 1, 2))
        assert "lock_file" in {row["check"] for row in found["rows"] if row["status"] != "ok"}
        ayaka.report(*words, "--fix", codes=(0, 1, 2))
        ayaka.ssh("node-1", f"test ! -e {lock}")


@pytest.fixture(scope="class")
def ttt(guides: Guides) -> Iterator[Guide]:
    with guides.guide("ttt").holding(guides.elsewhere) as ttt:
        yield ttt


class TestTtt:
    """A public repository, and a program on one device."""

    HOST = "tpu-tutorial"

    def test_the_machine(self, ttt: Guide) -> None:
        # The size of the boot disk is in this version of the API only.
        place = "v2alpha1/projects/local-project/locations/us-central1-a"
        node = ttt.api("GET", f"{place}/nodes/{self.HOST}")
        assert node["acceleratorType"] == "v3-8"
        assert node["bootDiskConfig"]["diskSizeGb"] == "200"
        assert ttt.as_user("cwang", self.HOST, "which htop; sudo -n whoami").split() == [
            "/usr/bin/htop",
            "root",
        ]

    def test_the_public_repository(self, ttt: Guide) -> None:
        look = "git -C ttt branch --show-current; git -C ttt pull -q; ls ttt/use_tpu_tutorial"
        told = ttt.as_user("cwang", self.HOST, look).split()
        assert told[0] == "main"
        assert "run_train_test.py" in told

    def test_a_run_resumes_after_a_kill_and_a_reboot(self, ttt: Guide) -> None:
        _begun, before = ttt.trains(self.HOST, "covid", attempt=1)
        ttt.kill(self.HOST, "covid")
        begun, now = ttt.trains(self.HOST, "covid", attempt=2)
        assert begun >= before
        ttt.as_user("cwang", self.HOST, "sudo -n systemd-run --on-active=1 systemctl reboot")
        assert ttt.trains(self.HOST, "covid", attempt=3)[0] >= now

    def test_nothing_is_left_that_costs(self, ttt: Guide) -> None:
        ttt.play("tpu.fleet.teardown", "-e", "teardown=all")
        assert ttt.cloud() == {}


@pytest.fixture(scope="class")
def zh(guides: Guides) -> Iterator[Guide]:
    zh = guides.guide("zh")
    zh.import_grant(time.strftime("%Y-%m-%d", time.gmtime()))
    with zh.holding(guides.elsewhere):
        yield zh


class TestZh:
    """Of a guide in Chinese: a preemptible TPU, a disk that stays, and nothing is forgotten."""

    HOST = "tpu-tfrc"

    def disk(self, zh: Guide) -> dict[str, Any]:
        return zh.api("GET", "compute/v1/projects/local-project/zones/us-central1-a/disks/disk1")

    def test_a_disk_of_800_gb_and_the_profiler(self, zh: Guide) -> None:
        assert self.disk(zh)["sizeGb"] == "800"
        size = zh.as_user("gan", self.HOST, "df --block-size=1G --output=size /data | tail -1")
        assert int(size) > 700
        shown = zh.as_user("gan", self.HOST, "~/venv/bin/pip show cloud-tpu-profiler")
        assert "Version: 2.4.0" in shown

    def test_a_preempted_tpu_goes_on_from_its_disk(self, zh: Guide) -> None:
        _begun, before = zh.trains(self.HOST, "biggan", attempt=1)
        old, disk = zh.cloud()[self.HOST], self.disk(zh)["id"]
        zh.run("tpu-fleet", "cloud", "preempt", self.HOST)
        zh.play("tpu.fleet.reprovision")
        assert zh.cloud()[self.HOST]["uid"] != old["uid"]
        assert self.disk(zh)["id"] == disk
        assert zh.trains(self.HOST, "biggan", attempt=2)[0] >= before

    def test_everything_that_runs_is_listed_in_all_zones(self, zh: Guide) -> None:
        body = {
            "acceleratorType": "v2-8",
            "runtimeVersion": "tpu-ubuntu2204-base",
            "metadata": {"local-cloud-machine": "small"},
        }
        forgotten = "v2/projects/local-project/locations/europe-west4-a/nodes"
        zh.api("POST", f"{forgotten}?nodeId=forgotten", body)
        wait_until("it runs", lambda: zh.cloud()["forgotten"]["state"] == "READY", 60)
        status = zh.run("tpu-fleet", "status")
        assert "forgotten" in status
        assert "not ours" in status
        listing = "gcloud compute tpus tpu-vm list --zone=- --format='value(name)'"
        told = zh.run("sh", "-c", f'eval "$(tpu-fleet cloud env)" && {listing}')
        assert {line.rpartition("/")[2] for line in told.split()} >= {self.HOST, "forgotten"}

    def test_the_end_of_the_grant(self, zh: Guide) -> None:
        zh.run("tpu-fleet", "cloud", "clock", "--advance", str(31 * DAY))
        zh.play("tpu.fleet.expiry")
        assert set(zh.cloud()) == {"forgotten"}, "what is not ours is not touched"
        assert self.disk(zh)["sizeGb"] == "800"
        told = zh.play("tpu.fleet.provision")
        assert "the grant for v3-8 as spot in us-central1-a is over" in told
        assert set(zh.cloud()) == {"forgotten"}

    def test_another_grant_and_the_teardown(self, zh: Guide) -> None:
        zh.import_grant(time.strftime("%Y-%m-%d", time.gmtime(time.time() + 31 * DAY)))
        zh.play("tpu.fleet.provision")
        assert set(zh.cloud()) == {self.HOST, "forgotten"}
        zh.play("tpu.fleet.teardown", "-e", "teardown=all")
        assert set(zh.cloud()) == {"forgotten"}
        assert self.disk(zh)["sizeGb"] == "800"
