#!/bin/sh
# Gathers programs and all they load into a folder that is an image's whole file system:
#
#     rootfs.sh FOLDER PROGRAM...
#
# The libraries (by ldd, so the programs must be this machine's), the certificates of public
# authorities, and a user without rights, by whose name the group is not 0. `/entrypoint` is the
# first program. Nothing else is in it: no shell, no package manager. Libraries of the folder that
# WITHOUT names are left out; libtorch's, for one, must keep their places to each other.
set -eu

root=$1
shift
mkdir -p "$root/usr/bin" "$root/etc/ssl/certs" "$root/tmp"
chmod 1777 "$root/tmp"

copy() {
    if [ -n "${WITHOUT:-}" ]; then
        case "$(realpath "$1")" in "$(realpath "$WITHOUT")"/*) return ;; esac
    fi
    mkdir -p "$root$(dirname "$1")"
    # Links are followed: the name that the loader asks for is the one that is there.
    [ -e "$root$1" ] || cp -L "$1" "$root$1"
}

for program in "$@"; do
    name=$(basename "$program")
    cp -L "$program" "$root/usr/bin/$name"
    strip "$root/usr/bin/$name"
    [ -e "$root/entrypoint" ] || ln -s "usr/bin/$name" "$root/entrypoint"
    # "libc.so.6 => /lib/… (0x…)" and "/lib64/ld-linux-x86-64.so.2 (0x…)"; a static program has none.
    ldd "$program" 2>/dev/null | sed -n 's/.*=> \(\/[^ ]*\) (.*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) (.*/\1/p' |
        while read -r library; do copy "$library"; done
done

copy /etc/ssl/certs/ca-certificates.crt
echo 'warpforge:x:65532:65532::/tmp:/nonexistent' > "$root/etc/passwd"
echo 'warpforge:x:65532:' > "$root/etc/group"
echo 'hosts: files dns' > "$root/etc/nsswitch.conf"
