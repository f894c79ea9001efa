#!/bin/sh
# Runs once in the root file system of machines with a kernel of their own, by chroot.
set -eu
chmod 755 /usr/local/sbin/vm-identity
for kernel in /usr/lib/modules/*; do depmod "${kernel##*/}"; done
# Here are devices, modules and a kernel to configure, and a swift end when the power button is pressed.
systemctl unmask --quiet systemd-udevd.service systemd-udev-trigger.service systemd-udevd-kernel.socket \
  systemd-udevd-control.socket systemd-modules-load.service
ln -sf /lib/systemd/system/poweroff.target /etc/systemd/system/ctrl-alt-del.target
