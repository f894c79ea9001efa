#!/bin/bash
# Print what a configured machine is like, one fact a line: "name: value". As root it tells of the machine, as a person of
# their logins. What names where a setting is written is left out: only what it brings about is compared.
set -uo pipefail

of_the_machine() {
  dpkg-query --show --showformat 'package ${Package}: ${db:Status-Status}\n'
  for person in alice bob; do
    echo "$person: $(getent passwd "$person") $(id -Gn "$person") $(passwd -S "$person" | cut -d' ' -f2)"
  done
  echo "sudo rules are right: $(visudo -qc > /dev/null 2>&1 && echo yes)"
  echo "time zone: $(cat /etc/timezone) $(readlink -f /etc/localtime)"
  sed 's/^/locale: /' /etc/default/locale
  systemctl show --property=DefaultLimitMEMLOCK,DefaultLimitNOFILE,DefaultLimitSTACK,DefaultLimitSTACKSoft |
    sed 's/=/: /'
  echo "RemoveIPC: $(busctl get-property org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager RemoveIPC)"
  echo "journal: $(systemd-analyze cat-config systemd/journald.conf | grep '^SystemMaxUse')"
  echo "looks after logs: $(systemctl is-active tpu-fleet-disk-guard.timer trim-logs.timer | grep -c '^active')"
  echo "updates by themselves: $(apt-config dump APT::Periodic::Enable)"
  echo "watches: $(sysctl -n fs.inotify.max_user_watches) $(grep -rh '^fs.inotify' /etc/sysctl.d)"
  cd "$(readlink -f /opt/tpu-fleet/code/digits)" &&
    find . -type f ! -name '.tpu-fleet*' -exec sha256sum {} + | sed -E 's/^(\S+) +(.*)/code \2: \1/'
  local python=/opt/venvs/jax/bin/python
  echo "python: $("$python" -c 'import platform; print(platform.python_version())')"
  echo "jax: $(JAX_PLATFORMS=cpu "$python" -c 'import jax; print(jax.__version__, jax.devices()[0].platform)')"
  "$python" -m pip list --disable-pip-version-check --format=freeze | sed 's/^/environment /; s/==/: /'
  echo "bytecode: $("$python" -c 'import importlib.util as u, os; print(os.path.exists(u.find_spec("optax").cached))')"
}

of_a_person() {
  local me git=github.com
  me=$(id -un)
  echo "$me limits: $(ulimit -Hn) $(ulimit -Sn) $(ulimit -Hl) $(ulimit -Ss)"
  echo "$me language: ${LANG-}"
  echo "$me root: $(sudo -n id -un 2> /dev/null)"
  echo "$me prompt: $(bash -ic 'eval "$PROMPT_COMMAND"; echo "$PS1"' 2> /dev/null | grep -o '\[[a-z0-9-]*\]' | head -1)"
  echo "$me environment: $(bash -lc 'tpu_venv jax && python -c "import sys; print(sys.prefix != sys.base_prefix)"')"
  echo "$me git server: $(ssh -G "$git" | grep -E '^(user|stricthostkeychecking) ' | paste -sd' ')"
  local known
  known=$(ssh -G "$git" | sed -n 's/^globalknownhostsfile //p')
  echo "$me git key: $(ssh-keygen -F "$git" -f "${known%% *}" | grep ed25519)"
}

if [[ $(id -u) == 0 ]]; then of_the_machine; else of_a_person; fi
