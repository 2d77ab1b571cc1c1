#!/usr/bin/env bash
# Builds the image for amd64 and arm64 without a registry, looks at what is in it, and runs it as a strict cluster would:
# a read-only root, any user, no capability. The builder is a Debian root with the toolchain of rust-toolchain.toml.
# Run by tests/run, which installs buildah, debootstrap and qemu.
set -euo pipefail

cd -- "$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")/../.."
program=tests/run
# shellcheck source=tests/tools/install.sh
source tests/tools/install.sh

most_octets=20000000
# What is built is kept below one name for each architecture, so one run at a time.
mkdir -p -- "$cache"
exec {lock}>"$cache/buildah.lock" && flock "$lock"
work=$(mktemp -d)
server=
trap 'stop_server; tidy || true; rm -rf -- "$work"' EXIT
trap 'exit 1' INT TERM

# What buildah stores goes where the other tools are.
buildah() {
    command buildah --storage-driver vfs --root "$cache/buildah" --runroot "$work/buildah" "$@"
}

stop_server() {
    [[ -z $server ]] || { kill "$server" 2>/dev/null && wait "$server" || true; }
    server=
}

# A build that fails or is killed leaves its container behind, and one that was replaced its image: gigabytes.
tidy() {
    buildah rm --all >/dev/null
    buildah rmi --prune >/dev/null
}

step() { echo "image: $*"; }
refuse() { echo "image: $*" >&2 && exit 1; }

# === The builder ===

install_root() { # DIRECTORY
    echo "making a Debian root with Rust $1; this takes some minutes"
    debootstrap --variant=minbase --include=build-essential,ca-certificates bookworm "$2" >"$work/debootstrap.log" ||
        { cat "$work/debootstrap.log" && return 1; }
    local rustup=$2/usr/local/rustup cargo=$2/usr/local/cargo channel
    channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    mkdir -p -- "$rustup/toolchains" "$cargo/bin"
    cp -a -- "$(realpath -- "$(rustc --print sysroot)")" \
        "$rustup/toolchains/$channel-$(rustc -vV | sed -n 's/^host: //p')"
    rm -rf -- "$rustup"/toolchains/*/share/doc
    # rustup is one program under many names.
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

# Builds for an architecture. Cargo's downloads are this machine's, and what it compiles is kept. It trusts the same
# certificates.
build() { # ARCHITECTURE
    local target=$cache/image-target-$1 registry=${CARGO_HOME:-$HOME/.cargo}/registry began=$SECONDS
    mkdir -p -- "$target" "$registry"
    # Not every buildah knows the platform that it runs on where a Dockerfile asks for it.
    buildah build --isolation chroot --platform "linux/$1" --build-arg "BUILDPLATFORM=linux/$(dpkg --print-architecture)" \
        --build-arg BUILDER="$builder" --pull=never --no-cache \
        --volume /etc/ssl/certs:/etc/ssl/certs:ro --volume "$registry:/usr/local/cargo/registry" \
        --volume "$target:/src/target" \
        --tag "localhost/global-dns:$1" . >"$work/build-$1.log" 2>&1 || { cat "$work/build-$1.log" && return 1; }
    step "$1: built in $((SECONDS - began)) s"
}

# Builds for both at once: a build ends with minutes in which it uses one core.
build_all() { # ARCHITECTURE…
    local architecture pid pids=() failed=0
    for architecture; do
        build "$architecture" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
    ((failed == 0)) || refuse "it could not be built"
}

# === What is in it ===

inspected() { # ARCHITECTURE FORMAT
    buildah inspect --type image --format "$2" "localhost/global-dns:$1"
}

look() { # ARCHITECTURE
    local container root files size version
    container=$(buildah from --pull=never "localhost/global-dns:$1")
    root=$work/root-$1
    cp -a -- "$(buildah mount "$container")" "$root"
    buildah rm "$container" >/dev/null
    files=$(find "$root" ! -type d -printf '%P\n')
    # Directories that buildah leaves behind for what it mounts are empty.
    [[ $files == global-dns ]] || refuse "$1: there is more in it than the binary: $files"
    size=$(stat -c %s "$root/global-dns")
    ((size < most_octets)) || refuse "$1: $size octets are more than $most_octets"
    [[ $(inspected "$1" '{{.OCIv1.Config.User}}') == 65532:65532 ]] || refuse "$1: it does not run as 65532:65532"
    [[ $(inspected "$1" '{{.OCIv1.Architecture}}') == "$1" ]] || refuse "$1: it says that it is of another architecture"
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
    [[ $(inspected "$1" '{{index .OCIv1.Config.Labels "org.opencontainers.image.version"}}') == "$version" ]] ||
        refuse "$1: its label says another version than Cargo.toml's $version"
    ! readelf --program-headers "$root/global-dns" | grep -q INTERP || refuse "$1: the binary is not static"
    step "$1: one static binary, $size octets, user 65532:65532, version $version"
}

# === How it runs ===

# Asks the server at port 15353 for a name of the sample, until it answers.
answers() {
    local text
    for _ in $(seq 300); do
        kill -0 "$server" 2>/dev/null || refuse "it ended: $(cat "$work/log")"
        text=$("$@" dig @127.0.0.1 -p 15353 +short +tries=1 +time=1 db-0.west.db.prod.global 2>/dev/null) || true
        [[ $text == 10.96.* ]] && return
        sleep 0.1
    done
    refuse "it does not answer: $(cat "$work/log")"
}

serve=(serve --cluster-name hub --listen 127.0.0.1:15353 --admin-listen 127.0.0.1:19153 --api-listen 127.0.0.1:19154)

run_strictly() {
    local user=$((100000 + RANDOM)) root=$work/root-amd64 status
    mkdir -p -- "$root/data" && install -m 644 src/demo.yaml "$root/data/"
    # A network and mounts of its own. The root is read-only, the user any; who is not root and may not gain
    # privileges has no capability and cannot get one.
    # shellcheck disable=SC2016 # for the shell in there
    unshare --net --mount -- sh -c '
        root=$1 user=$2 && shift 2
        ip link set lo up && mount --bind "$root" "$root" && mount -o remount,bind,ro "$root" || exit
        exec setpriv --no-new-privs --inh-caps=-all \
            unshare --root "$root" --setgid "$user" --setuid "$user" -- /global-dns "$@"
    ' sh "$root" "$user" "${serve[@]}" --file /data/demo.yaml >"$work/log" 2>&1 &
    server=$!
    answers nsenter --net="/proc/$server/ns/net" --
    status=$(cat "/proc/$server/status")
    grep -q "^CapEff:[[:space:]]*0*$" <<<"$status" || refuse "it has capabilities: $status"
    grep -q "^NoNewPrivs:[[:space:]]*1$" <<<"$status" || refuse "it may gain privileges: $status"
    grep -q "^Uid:[[:space:]]*$user[[:space:]]" <<<"$status" || refuse "it runs as another user: $status"
    ends
    step "amd64: answers with a read-only root, as user $user, without a capability"
}

run_emulated() {
    qemu-aarch64-static "$work/root-arm64/global-dns" "${serve[@]}" --file src/demo.yaml >"$work/log" 2>&1 &
    server=$!
    answers env
    ends
    step "arm64: answers under emulation"
}

# It ends at SIGTERM, in good order.
ends() {
    kill "$server"
    wait "$server" || refuse "it ended with exit code $?: $(cat "$work/log")"
    server=
}

tidy
make_builder
build_all amd64 arm64
for architecture in amd64 arm64; do look "$architecture"; done
run_strictly
run_emulated
