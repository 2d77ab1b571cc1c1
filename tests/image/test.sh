#!/usr/bin/env bash
# Builds the image for the architecture of this machine without a registry, checks its content, and runs it as a restricted
# pod: with a read-only root file system, an arbitrary user and no capabilities. The builder image is a Debian root with the
# toolchain of rust-toolchain.toml. tests/run runs this script and installs Buildah and debootstrap. The workflow `release`
# builds the image for arm64, too.
set -euo pipefail

cd -- "$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")/../.."
program=tests/run
# shellcheck source=tests/tools/install.sh
source tests/tools/install.sh

# shellcheck source=tests/image/builder.sh
source tests/image/builder.sh
# shellcheck source=.ci/project
source .ci/project

max_octets=28000000
work=$(mktemp -d)
root=$work/root
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

image=localhost/global-dns:test
architecture=$(dpkg --print-architecture)

build() {
    local began=$SECONDS
    # Some versions of Buildah do not set BUILDPLATFORM.
    buildah build --build-arg "BUILDPLATFORM=linux/$architecture" --build-arg "REVISION=$(git rev-parse HEAD)" --tag "$image" \
        "${build_options[@]}" . >"$work/build.log" 2>&1 ||
        { cat "$work/build.log" && fail_image "cannot build the image; see the output above"; }
    step "built in $((SECONDS - began)) s"
}

# === Content ===

inspect() { # FORMAT
    buildah inspect --type image --format "$1" "$image"
}

check_content() {
    local container files size label
    container=$(buildah from --pull=never "$image")
    cp -a -- "$(buildah mount "$container")" "$root"
    buildah rm "$container" >/dev/null
    files=$(find "$root" ! -type d -printf '%P\n')
    # Only files count, because buildah leaves empty directories for its mounts.
    [[ $files == global-dns ]] || fail_image "the image must contain only the binary, found: $files"
    size=$(stat -c %s "$root/global-dns")
    ((size < max_octets)) || fail_image "the binary has $size octets, limit $max_octets"
    [[ $(inspect '{{.OCIv1.Config.User}}') == 65532:65532 ]] || fail_image "the user of the image is not 65532:65532"
    [[ $(inspect '{{.OCIv1.Architecture}}') == "$architecture" ]] || fail_image "the image has the metadata of another architecture"
    for label in version licenses url source revision; do
        [[ $(inspect "{{index .OCIv1.Config.Labels \"org.opencontainers.image.$label\"}}") == "${labels[$label]}" ]] ||
            fail_image "the label $label of the image is not ${labels[$label]}"
    done
    step "one binary, $size octets, user 65532:65532, version ${labels[version]}"
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
    local user=$((100000 + RANDOM)) status
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
    step "answers with a read-only root, as user $user, without capabilities"
}

# Sends SIGTERM to the server and checks its exit code.
terminate() {
    kill "$server"
    wait "$server" || fail_image "the server ended with exit code $?: $(cat "$work/log")"
    server=
}

declare -A labels=([version]=$version [licenses]=Apache-2.0 [url]=$repository [source]=$repository [revision]=$(git rev-parse HEAD))

open_storage "$work"
remove_leftovers
make_builder
build
check_content
run_restricted
