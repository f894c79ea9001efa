#!/bin/bash
# A training machine by hand: what the demo's fleet file asks for, as a person would write it who knows the way.
#
#   { cat first_configure.sh; tar -cz -C examples/jax .; } | ssh HOST sudo bash -s -- HOST 'ssh-ed25519 AAAA… key'
#
# benchmarks/first_configure.py measures it, and checks that a machine is the same afterwards.
set -euo pipefail

main() {
  local name=$1 key=$2
  export DEBIAN_FRONTEND=noninteractive

  # What follows the script is the code.
  local code=/opt/tpu-fleet/code/digits
  mkdir -p "$code"
  tar -xz --no-same-owner -C "$code"

  packages
  settings
  shells "$name"
  people "$key"
  git_servers
  environment
}

packages() {
  echo 'APT::Periodic::Enable "0";' > /etc/apt/apt.conf.d/99no-updates
  apt-get -q -o DPkg::Lock::Timeout=600 update
  apt-get -q -y -o DPkg::Lock::Timeout=600 install --no-install-recommends \
    acl ca-certificates curl git htop jq less lsof python3-venv rsync sudo tmux tzdata unzip
}

settings() {
  echo Etc/UTC > /etc/timezone
  ln -sf /usr/share/zoneinfo/Etc/UTC /etc/localtime
  echo LANG=C.UTF-8 > /etc/default/locale

  # Who asks for more than the machine can give cannot log in any more.
  local files memory lock_unit=K
  files=$(ulimit -Hn)
  memory=$(ulimit -Hl)
  if [[ $files == unlimited ]] || ((files > 1048576)); then files=1048576; fi
  if [[ $memory == unlimited ]]; then lock_unit=; fi
  for who in '*' root; do
    printf '%s - memlock %s\n%s - nofile %s\n%s soft stack 65536\n' "$who" "$memory" "$who" "$files" "$who"
  done > /etc/security/limits.d/90-training.conf

  mkdir -p /etc/systemd/{system,journald,logind}.conf.d
  cat > /etc/systemd/system.conf.d/90-training.conf << EOF
[Manager]
DefaultLimitMEMLOCK=${memory/unlimited/infinity}$lock_unit
DefaultLimitNOFILE=$files
DefaultLimitSTACK=65536K:infinity
EOF
  printf '[Journal]\nSystemMaxUse=500M\n' > /etc/systemd/journald.conf.d/90-training.conf
  printf '[Login]\nRemoveIPC=no\n' > /etc/systemd/logind.conf.d/90-training.conf
  trimmed_logs
  systemctl daemon-reexec
  systemctl restart systemd-journald.service
  systemctl kill --signal=HUP systemd-logind.service
  systemctl enable --quiet --now trim-logs.timer

  echo 'fs.inotify.max_user_watches = 524288' > /etc/sysctl.d/60-watches.conf
  if (($(sysctl -n fs.inotify.max_user_watches) < 524288)); then sysctl -q -p /etc/sysctl.d/60-watches.conf; fi
}

# Logs and caches do not fill the disk: beyond its size the oldest files of a folder go.
trimmed_logs() {
  cat > /usr/local/sbin/trim-logs << 'EOF'
#!/bin/bash
trim() {
  local folder=$1 most=$2 minutes=$3 size file
  [[ -d $folder ]] || return 0
  size=$(du -skx "$folder" | cut -f1)
  find "$folder" -xdev -type f -mmin +"$minutes" -printf '%T@ %k %p\n' | sort -n |
    while read -r _ kilobytes file && ((size > most * 1024)); do
      rm -f -- "$file"
      size=$((size - kilobytes))
    done
}
trim /tmp/tpu_logs 1024 60
trim /var/cache/apt/archives 512 1440
trim /var/crash 256 1440
EOF
  chmod 755 /usr/local/sbin/trim-logs
  printf '[Service]\nType=oneshot\nExecStart=/usr/local/sbin/trim-logs\nNice=19\n' \
    > /etc/systemd/system/trim-logs.service
  printf '[Timer]\nOnBootSec=5min\nOnActiveSec=1min\nOnUnitActiveSec=15min\n\n[Install]\nWantedBy=timers.target\n' \
    > /etc/systemd/system/trim-logs.timer
}

# The prompt says which machine this is; tpu_venv goes into an environment.
shells() {
  cat >> /etc/bash.bashrc << EOF

mark_prompt() { case \$PS1 in *"[$1] "*) ;; *) PS1="[$1] \$PS1" ;; esac; }
PROMPT_COMMAND="mark_prompt\${PROMPT_COMMAND:+; \$PROMPT_COMMAND}"
EOF
  echo 'tpu_venv() { . "/opt/venvs/${1:?NAME of an environment}/bin/activate"; }' > /etc/profile.d/venvs.sh
}

people() {
  local entry name number
  for entry in alice:2001 bob:2002; do
    name=${entry%:*} number=${entry#*:}
    useradd --create-home --uid "$number" --user-group --shell /bin/bash --password '*' "$name"
    install -d -m 700 -o "$name" -g "$name" "/home/$name/.ssh"
    install -m 600 -o "$name" -g "$name" <(echo "$1") "/home/$name/.ssh/authorized_keys"
  done
  echo 'alice ALL=(ALL:ALL) NOPASSWD: ALL' > /etc/sudoers.d/alice
  chmod 440 /etc/sudoers.d/alice
  visudo -q -c
}

git_servers() {
  cat > /etc/ssh/git_known_hosts << 'EOF'
github.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl
gitlab.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAfuCHKVTjquxvt6CM6tdG4SLp1Btn/nOeHHE5UOzRdf
EOF
  cat > /etc/ssh/ssh_config.d/50-git.conf << 'EOF'
Host github.com gitlab.com
    User git
    GlobalKnownHostsFile /etc/ssh/git_known_hosts
    UserKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    UpdateHostKeys no
Match all
EOF
}

environment() {
  local python=/opt/venvs/jax/bin/python
  python3 -m venv /opt/uv
  /opt/uv/bin/pip install -q --disable-pip-version-check uv==0.13.8
  /opt/uv/bin/uv venv -q --python 3.12 /opt/venvs/jax
  /opt/uv/bin/uv pip install -q --compile-bytecode --python "$python" \
    jax==0.12.0.1 gcsfs==2026.10.1 google-cloud-storage==3.17.1 orbax-checkpoint==0.12.8 optax==0.2.8 \
    scikit-learn==1.9.1 pip
  JAX_PLATFORMS=cpu "$python" -c 'import jax'
}

# On one line: what is after it is no script any more.
main "$@"; exit
