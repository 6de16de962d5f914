#!/bin/sh
# Starts the system in the folder $1, in namespaces of its own: `unshare --mount --pid --cgroup
# --ipc --uts --fork boot.sh FOLDER PROGRAM...`, which is process 1 there. As in any container, it
# sees the machine's kernel and may set none of it.
set -e

folder=$1
shift
cd "$folder"
mount --make-rprivate /
mount --bind . .
cd "$folder"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,ro,bind proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts dev/shm
for device in null zero full random urandom tty; do
    : >dev/$device
    mount --bind /dev/$device dev/$device
done
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd

# Not chroot: in one the kernel makes no namespace of users, which the unit asks for.
pivot_root . mnt
# shellcheck disable=SC2016 # the inner shell's
exec env -i container=check PATH=/usr/sbin:/usr/bin sh -c '
    umount -l /mnt
    exec setpriv --bounding-set=-sys_module,-sys_time,-sys_boot,-sys_rawio,-mac_admin "$@"
' sh "$@"
