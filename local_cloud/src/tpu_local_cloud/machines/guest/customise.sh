#!/bin/sh
# Runs once in the root file system of the base image, by chroot.
set -eu
update-ca-certificates >/dev/null
id ubuntu >/dev/null 2>&1 || useradd --create-home --uid 1000 --shell /bin/bash ubuntu
echo 'ubuntu ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/90-cloud-init-users
chmod 440 /etc/sudoers.d/*
cat > /etc/hosts <<'END'
127.0.0.1 localhost
::1 localhost ip6-localhost
169.254.169.254 metadata.google.internal metadata
169.254.169.254 storage.googleapis.com
END
# Images made for containers keep services from starting, and apt from keeping anything.
rm -f /usr/sbin/policy-rc.d /etc/apt/apt.conf.d/docker-*
# Every machine makes its own identity.
rm -f /etc/ssh/ssh_host_* /var/lib/dbus/machine-id /etc/resolv.conf
: > /etc/machine-id
: > /etc/hostname
chmod 755 /usr/local/sbin/vm-identity /usr/local/sbin/data-disks /usr/local/sbin/trust-authority
chmod 644 /etc/systemd/system/*.service
units="vm-identity ssh-host-keys ssh google-guest-agent google-startup-scripts google-shutdown-scripts"
for unit in $units; do systemctl enable --quiet "$unit.service"; done
# A container has no devices to wait for, no console, and no kernel of its own to configure.
systemctl mask --quiet systemd-udevd.service systemd-udev-trigger.service \
  systemd-udevd-kernel.socket systemd-udevd-control.socket getty.target console-getty.service \
  systemd-modules-load.service sys-kernel-debug.mount sys-kernel-tracing.mount \
  dev-hugepages.mount apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer \
  dpkg-db-backup.timer systemd-binfmt.service proc-sys-fs-binfmt_misc.automount
# The lists are gone, and must not look fresh to those who ask how old they are.
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
mkdir -p /var/lib/apt/lists/partial
touch -d @86400 /var/lib/apt/lists
