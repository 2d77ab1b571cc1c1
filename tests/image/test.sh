#!/usr/bin/env bash
# Builds the image for amd64 and arm64 without a registry, checks its content, and runs it as a restricted pod: with a
# read-only root file system, an arbitrary user and no capabilities. The builder image is a Debian root with the toolchain
# of rust-toolchain.toml. `.github/release` builds it, as for a release. tests/run runs this script and installs Buildah,
# debootstrap and QEMU.
set -euo pipefail

cd -- "$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")/../.."
program=tests/run
# shellcheck source=tests/tools/install.sh
source tests/tools/install.sh

# shellcheck source=tests/image/builder.sh
source tests/image/builder.sh

max_octets=28000000
work=$(mktemp -d)
server=
trap 'stop_server; remove_leftovers || true; rm -rf -- "$work"' EXIT
trap 'exit 1' INT TERM

stop_server() {
    [[ -z $server ]] || { kill "$server" && wait "$server"; } 2>/dev/null || true
    server=
}

step() { echo "image: $*"; }
fail_image() { echo "image: $*" >&2 && exit 1; }

# === Build ===

build() { # ARCHITECTURE
    local began=$SECONDS
    .github/release build "$1" >"$work/build-$1.log" 2>&1 || { cat "$work/build-$1.log" && return 1; }
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
    local container root files size label
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
    for label in version licenses url source revision; do
        [[ $(inspect "$1" "{{index .OCIv1.Config.Labels \"org.opencontainers.image.$label\"}}") == "${labels[$label]}" ]] ||
            fail_image "$1: the label $label of the image is not ${labels[$label]}"
    done
    ! readelf --program-headers "$root/global-dns" | grep -q INTERP || fail_image "$1: the binary is not static"
    step "$1: one static binary, $size octets, user 65532:65532, version ${labels[version]}"
    check_crates "$1" "$root/global-dns"
}

# Checks that the binary lists every crate that it was built from, for scanners of images.
check_crates() { # ARCHITECTURE BINARY
    local offset size listed built
    read -r offset size < <(readelf --section-headers --wide "$2" |
        sed -n 's/.* \.dep-v0 *PROGBITS *[0-9a-f]* \([0-9a-f]*\) \([0-9a-f]*\) .*/\1 \2/p') ||
        fail_image "$1: the binary has no list of its crates"
    listed=$(tail -c +$((0x$offset + 1)) "$2" | head -c $((0x$size)) | python3 -c '
import json, sys, zlib
for crate in json.loads(zlib.decompress(sys.stdin.buffer.read()))["packages"]:
    if crate.get("kind", "runtime") == "runtime": print(crate["name"] + "@" + crate["version"])' | sort -u)
    built=$(cargo tree --locked --features jemalloc --target "${rust_targets[$1]}" --edges normal,no-proc-macro --prefix none \
        --format '{p}' | sed 's/^\([^ ]*\) v\([^ ]*\).*/\1@\2/' | sort -u)
    built=$(comm -23 <(echo "$built") <(echo "$listed"))
    [[ -z $built ]] || fail_image "$1: crates that the binary does not list: $built"
    step "$1: lists $(wc -l <<<"$listed") crates in $((0x$size)) octets"
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
    grep -q "^Uid:[[:space:]]*${user}[[:space:]]" <<<"$status" || fail_image "the server runs as another user: $status"
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

of_package() { sed -n "s/^$1 = \"\(.*\)\"/\1/p" Cargo.toml | head -n 1; } # KEY
declare -A rust_targets=([amd64]=x86_64-unknown-linux-gnu [arm64]=aarch64-unknown-linux-gnu)
declare -A labels=([version]=$(of_package version) [licenses]=$(of_package license) [url]=$(of_package homepage)
    [source]=$(of_package repository) [revision]=$(git rev-parse HEAD))

open_storage "$work"
remove_leftovers
make_builder
build_all amd64 arm64
for architecture in amd64 arm64; do check_content "$architecture"; done
run_restricted
run_emulated
