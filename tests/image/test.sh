#!/usr/bin/env bash
# Builds the image for amd64 and arm64 without a registry, checks its content, and runs it as a restricted pod: with a
# read-only root file system, an arbitrary user and no capabilities. The builder image is a Debian root with the toolchain
# of rust-toolchain.toml. tests/run runs this script and installs Buildah, debootstrap and QEMU.
set -euo pipefail

cd -- "$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")/../.."
program=tests/run
# shellcheck source=tests/tools/install.sh
source tests/tools/install.sh

max_octets=28000000
# One run at a time, because each architecture has one image name.
mkdir -p -- "$cache"
exec {lock}>"$cache/buildah.lock" && flock "$lock"
work=$(mktemp -d)
server=
trap 'stop_server; remove_leftovers || true; rm -rf -- "$work"' EXIT
trap 'exit 1' INT TERM

# Buildah's storage is in the cache of the other tools.
buildah() {
    command buildah --storage-driver vfs --root "$cache/buildah" --runroot "$work/buildah" "$@"
}

stop_server() {
    [[ -z $server ]] || { kill "$server" 2>/dev/null && wait "$server" || true; }
    server=
}

# Removes the containers of failed builds and the images that a newer build replaced: they take gigabytes.
remove_leftovers() {
    buildah rm --all >/dev/null
    buildah rmi --prune >/dev/null
}

step() { echo "image: $*"; }
fail_image() { echo "image: $*" >&2 && exit 1; }

# === The builder ===

install_root() { # DIRECTORY
    echo "creating a Debian root with Rust $1; this takes some minutes"
    debootstrap --variant=minbase --include=build-essential,ca-certificates bookworm "$2" >"$work/debootstrap.log" ||
        { cat "$work/debootstrap.log" && return 1; }
    local rustup=$2/usr/local/rustup cargo=$2/usr/local/cargo channel
    channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    mkdir -p -- "$rustup/toolchains" "$cargo/bin"
    cp -a -- "$(realpath -- "$(rustc --print sysroot)")" \
        "$rustup/toolchains/$channel-$(rustc -vV | sed -n 's/^host: //p')"
    rm -rf -- "$rustup"/toolchains/*/share/doc
    # rustup is one program with several names.
    cp -L -- "$(command -v rustup)" "$cargo/bin/rustup"
    for name in cargo rustc; do ln -- "$cargo/bin/rustup" "$cargo/bin/$name"; done
}

make_builder() {
    local version name container
    version=$(rustc -vV | digest)
    name=localhost/global-dns-builder:$version
    if ! buildah inspect --type image "$name" >/dev/null 2>&1; then
        cache_once builder "$version" install_root "$(rustc --version)"
        container=$(buildah from scratch)
        buildah add --quiet "$container" "$cached" / >/dev/null
        buildah config --env RUSTUP_HOME=/usr/local/rustup --env CARGO_HOME=/usr/local/cargo \
            --env PATH=/usr/local/cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
        buildah commit --quiet --rm "$container" "$name" >/dev/null
    fi
    builder=$name
}

# Builds the image for an architecture. The build shares cargo's registry and the CA certificates with this machine, and
# keeps its target directory.
build() { # ARCHITECTURE
    local target=$cache/image-target-$1 registry=${CARGO_HOME:-$HOME/.cargo}/registry began=$SECONDS
    mkdir -p -- "$target" "$registry"
    # Some versions of Buildah do not set BUILDPLATFORM.
    buildah build --isolation chroot --platform "linux/$1" --build-arg "BUILDPLATFORM=linux/$(dpkg --print-architecture)" \
        --build-arg BUILDER="$builder" --pull=never --no-cache \
        --volume /etc/ssl/certs:/etc/ssl/certs:ro --volume "$registry:/usr/local/cargo/registry" \
        --volume "$target:/src/target" \
        --tag "localhost/global-dns:$1" . >"$work/build-$1.log" 2>&1 || { cat "$work/build-$1.log" && return 1; }
    step "$1: built in $((SECONDS - began)) s"
}

# Builds all architectures in parallel, because the last minutes of a build use only one core.
build_all() { # ARCHITECTURE…
    local architecture pid pids=() failed=0
    for architecture; do
        build "$architecture" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
    ((failed == 0)) || fail_image "cannot build the image; see the output above"
}

# === Content ===

inspect() { # ARCHITECTURE FORMAT
    buildah inspect --type image --format "$2" "localhost/global-dns:$1"
}

check_content() { # ARCHITECTURE
    local container root files size version
    container=$(buildah from --pull=never "localhost/global-dns:$1")
    root=$work/root-$1
    cp -a -- "$(buildah mount "$container")" "$root"
    buildah rm "$container" >/dev/null
    files=$(find "$root" ! -type d -printf '%P\n')
    # Only files count, because buildah leaves empty directories for its mounts.
    [[ $files == global-dns ]] || fail_image "$1: the image must contain only the binary, found: $files"
    size=$(stat -c %s "$root/global-dns")
    ((size < max_octets)) || fail_image "$1: the binary has $size octets, limit $max_octets"
    [[ $(inspect "$1" '{{.OCIv1.Config.User}}') == 65532:65532 ]] || fail_image "$1: the user of the image is not 65532:65532"
    [[ $(inspect "$1" '{{.OCIv1.Architecture}}') == "$1" ]] || fail_image "$1: the image has the metadata of another architecture"
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
    [[ $(inspect "$1" '{{index .OCIv1.Config.Labels "org.opencontainers.image.version"}}') == "$version" ]] ||
        fail_image "$1: the version label is not the version of Cargo.toml, $version"
    ! readelf --program-headers "$root/global-dns" | grep -q INTERP || fail_image "$1: the binary is not static"
    step "$1: one static binary, $size octets, user 65532:65532, version $version"
}

# === Run time ===

# Waits until the server at port 15353 answers a query for a name of the sample.
wait_for_answer() {
    local text
    for _ in $(seq 300); do
        kill -0 "$server" 2>/dev/null || fail_image "the server exited: $(cat "$work/log")"
        text=$("$@" dig @127.0.0.1 -p 15353 +short +tries=1 +time=1 db-0.west.db.prod.global 2>/dev/null) || true
        [[ $text == 10.96.* ]] && return
        sleep 0.1
    done
    fail_image "the server does not answer: $(cat "$work/log")"
}

serve=(serve --cluster-name hub --listen 127.0.0.1:15353 --admin-listen 127.0.0.1:19153 --api-listen 127.0.0.1:19154)

run_restricted() {
    local user=$((100000 + RANDOM)) root=$work/root-amd64 status
    mkdir -p -- "$root/data" && install -m 644 src/demo.yaml "$root/data/"
    # Own network and mount namespaces, a read-only root and an arbitrary user. A process without root rights and with
    # no_new_privs has no capabilities and cannot gain any.
    # shellcheck disable=SC2016 # the inner shell expands it
    unshare --net --mount -- sh -c '
        root=$1 user=$2 && shift 2
        ip link set lo up && mount --bind "$root" "$root" && mount -o remount,bind,ro "$root" || exit
        exec setpriv --no-new-privs --inh-caps=-all \
            unshare --root "$root" --setgid "$user" --setuid "$user" -- /global-dns "$@"
    ' sh "$root" "$user" "${serve[@]}" --file /data/demo.yaml >"$work/log" 2>&1 &
    server=$!
    wait_for_answer nsenter --net="/proc/$server/ns/net" --
    status=$(cat "/proc/$server/status")
    grep -q "^CapEff:[[:space:]]*0*$" <<<"$status" || fail_image "the server has capabilities: $status"
    grep -q "^NoNewPrivs:[[:space:]]*1$" <<<"$status" || fail_image "the server can gain privileges: $status"
    grep -q "^Uid:[[:space:]]*$user[[:space:]]" <<<"$status" || fail_image "the server runs as another user: $status"
    terminate
    step "amd64: answers with a read-only root, as user $user, without capabilities"
}

run_emulated() {
    qemu-aarch64-static "$work/root-arm64/global-dns" "${serve[@]}" --file src/demo.yaml >"$work/log" 2>&1 &
    server=$!
    wait_for_answer env
    terminate
    step "arm64: answers under emulation"
}

# Sends SIGTERM to the server and checks its exit code.
terminate() {
    kill "$server"
    wait "$server" || fail_image "the server ended with exit code $?: $(cat "$work/log")"
    server=
}

remove_leftovers
make_builder
build_all amd64 arm64
for architecture in amd64 arm64; do check_content "$architecture"; done
run_restricted
run_emulated
