#!/bin/sh
# Runs once in the root file system of machines with a kernel of their own, by chroot.
set -eu
chmod 755 /usr/local/sbin/vm-identity
for kernel in /usr/lib/modules/*; do depmod "${kernel##*/}"; done
# A swift end when the power button is pressed, and modules by name; devices make themselves.
rm -f /etc/systemd/system/systemd-modules-load.service
ln -sf /lib/systemd/system/poweroff.target /etc/systemd/system/ctrl-alt-del.target
