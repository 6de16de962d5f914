#!/bin/sh
# Swift for machines whose own Debian has none: Debian 13 in a folder (root; mmdebstrap).
#
#     trixie.sh make ROOT                      makes it
#     trixie.sh run ROOT FOLDER PROGRAM...     runs a program there; /mnt is FOLDER
set -e
what=$1 root=$2
case $what in
make)
    # The debugger, the servers of editors and what is for other machines are more than half of it.
    for unused in 'doc/*' 'embedded/*' 'swift_static/*' 'lldb*' 'liblldb*' 'libsourcekitd*' clangd sourcekit-lsp; do
        set -- "$@" "--dpkgopt=path-exclude=/usr/*/$unused"
    done
    shift 2
    mkdir -p "$root"
    exec mmdebstrap --quiet --variant=essential --include=swiftlang,libc6-dev,libstdc++-14-dev "$@" trixie "$root"
    ;;
run)
    folder=$3
    shift 3
    # shellcheck disable=SC2016 # the inner shell's
    exec unshare --mount sh -c '
        mount --bind "$1" "$0/mnt"
        mount -t proc proc "$0/proc"
        root=$0
        shift
        exec chroot "$root" "$@"
    ' "$root" "$folder" "$@"
    ;;
esac
