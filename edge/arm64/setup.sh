#!/bin/bash
# Makes an emulated 64-bit ARM device in build/arm64, without root and without touching the
# machine's own packages: QEMU 10's user mode and an arm64 Python from Debian trixie (QEMU 7.2, of
# bookworm, crashes onnxruntime), aarch64 wheels of all that the edge needs, and hnswlib, which has
# none, cross-compiled. build/arm64/python then runs Python as a Raspberry Pi 4 would.
#
# Why it is here: "there are wheels for aarch64" is a belief until something ran on one. `make
# check-arm64` calls it; a second call finds everything done.
set -euo pipefail
cd "$(dirname "$0")/../.."

pip=${1:?usage: edge/arm64/setup.sh PIP}
arm=$PWD/build/arm64
suite=trixie
version=3.13
wheels=(--only-binary=:all: --implementation cp --python-version "$version")
for abi in "cp${version/./}" abi3 none; do wheels+=(--abi "$abi"); done
for glibc in manylinux_2_{28,27,26,24,17} manylinux2014; do wheels+=(--platform "${glibc}_aarch64"); done

fail() { # PROBLEM FIX
    printf 'check-arm64: %s\nfix: %s\n' "$1" "$2" >&2
    exit 1
}

# A private apt, with lists and a cache of its own; proxies and keys are the machine's.
# Reads further settings from standard input.
make_apt() { # NAME
    mkdir -p "$arm/$1-apt/lists/partial" "$arm/$1-apt/cache/archives/partial"
    cat - /dev/fd/3 >"$arm/$1-apt/apt.conf" 3<<END
Dir::State::lists "$arm/$1-apt/lists";
Dir::Cache "$arm/$1-apt/cache";
Acquire::Languages "none";
APT::Install-Recommends "false";
APT::Sandbox::User "";
Debug::NoLocking "true";
quiet "2";
END
    run_apt "$1" update || fail "apt cannot fetch its lists" "see that \`apt-get update\` works"
}

run_apt() { # NAME COMMAND...
    (cd "$arm/$1-apt/cache/archives" && APT_CONFIG=$arm/$1-apt/apt.conf apt-get "${@:2}" >&2)
}

unpack() { # NAME FOLDER: what the apt NAME has fetched
    rm -rf "${arm:?}/$2"
    mkdir -p "$arm/$2"
    for package in "$arm/$1-apt/cache/archives"/*.deb; do
        [ -e "$package" ] || continue # nothing was missing
        dpkg-deb -x "$package" "$arm/$2"
        rm "$package"
    done
}

get_device() { # QEMU, and the root of an arm64 system that has Python
    local mirror signed=
    mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
        grep -m 1 '/debian/$' || true)}
    [ -n "$mirror" ] || fail "apt has no mirror of Debian here" "name one in DEBIAN_MIRROR"
    local keys=/usr/share/keyrings/debian-archive-keyring.gpg
    [ ! -e $keys ] || signed="[signed-by=$keys]"
    mkdir -p "$arm/device-apt"
    echo "deb $signed $mirror $suite main" >"$arm/device-apt/sources.list"
    : >"$arm/device-apt/status" # the device starts empty
    make_apt device <<END
Dir::Etc::sourcelist "$arm/device-apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::status "$arm/device-apt/status";
APT::Architecture "arm64";
APT::Architectures { "arm64"; "amd64"; };
END
    run_apt device download qemu-user:amd64 # linked statically: runs on an older system too
    unpack device qemu
    mv "$arm/qemu/usr/bin/qemu-aarch64" "$arm/" && rm -r "$arm/qemu" # it came with all others
    run_apt device download "libpython$version-dev" # for its headers; it asks for much more
    unpack device headers
    run_apt device install --yes --download-only "python$version" libstdc++6
    unpack device root
    ln -sfn usr/lib "$arm/root/lib" # where every program looks for its loader
    cat >"$arm/python" <<END
#!/bin/sh
exec env LD_LIBRARY_PATH= PYTHONPATH="$arm/site:$PWD/protos:$PWD/core:$PWD/edge" PYTHONNOUSERSITE=1 \\
    "$arm/qemu-aarch64" -cpu cortex-a72 -L "$arm/root" \\
    "$arm/root/usr/bin/python$version" "\$@"
END
    chmod +x "$arm/python"
}

get_wheels() {
    "$pip" install --quiet --target "$arm/site" --upgrade "${wheels[@]}" --no-deps --require-hashes \
        -r deploy/locks/edge.txt
}

build_hnswlib() { # with this machine's release of the cross compiler, unpacked beside it if missing
    make_apt compiler </dev/null
    run_apt compiler install --yes --download-only g++-aarch64-linux-gnu
    unpack compiler compiler
    local compile=(aarch64-linux-gnu-g++)
    if [ -e "$arm/compiler/usr/bin/aarch64-linux-gnu-g++" ]; then
        compile=(env LD_LIBRARY_PATH="$arm/compiler/usr/lib/x86_64-linux-gnu"
            "$arm/compiler/usr/bin/aarch64-linux-gnu-g++" --sysroot="$arm/compiler"
            -B "$arm/compiler/usr/bin/aarch64-linux-gnu-")
    fi
    export PIP_CONSTRAINT=deploy/locks/pins.txt PIP_BUILD_CONSTRAINT=deploy/locks/pins.txt
    "$pip" install --quiet --target "$arm/build" --upgrade pybind11
    "$pip" download --quiet --no-deps --require-hashes --no-binary hnswlib -d "$arm/build" \
        -r deploy/locks/graph.txt
    mkdir -p "$arm/build/hnswlib"
    tar -xzf "$arm/build"/hnswlib-*.tar.gz --strip-components 1 -C "$arm/build/hnswlib"
    # As its setup.py does, for any 64-bit ARM. No other header of the device may be seen.
    "${compile[@]}" -O3 -std=c++14 -shared -fPIC -fvisibility=hidden -w -DVERSION_INFO='"device"' \
        -I "$arm/build/hnswlib/hnswlib" -I "$arm/build/pybind11/include" \
        -I "$arm/site/numpy/_core/include" -I "$arm/headers/usr/include/python$version" \
        -I "$arm/headers/usr/include" "$arm/build/hnswlib/python_bindings/bindings.cpp" \
        -o "$arm/site/hnswlib.cpython-${version/./}-aarch64-linux-gnu.so"
    rm -r "$arm/compiler" "$arm/compiler-apt" "$arm/build"
}

[ "$(uname -m)" = x86_64 ] ||
    fail "this emulates ARM on x86-64 only" "on an ARM device run edge/arm64/smoke.py itself"
for tool in apt-get dpkg-deb sha256sum tar "$pip"; do
    command -v "$tool" >/dev/null || fail "there is no $tool" "use a Debian-like machine"
done

# Another recipe starts afresh; the same one goes on where it was interrupted.
recipe=$(cat edge/arm64/setup.sh deploy/locks/{edge,graph,pins}.txt | sha256sum)
if [ "$(cat "$arm/recipe" 2>/dev/null)" != "$recipe" ]; then
    rm -rf "$arm"
    mkdir -p "$arm"
    echo "$recipe" >"$arm/recipe"
fi
for stage in get_device get_wheels build_hnswlib; do
    [ ! -e "$arm/$stage.done" ] || continue
    echo "arm64: $stage" >&2
    $stage
    touch "$arm/$stage.done"
done
