#!/usr/bin/env bash
# Writes the images of the layer `cluster` as archives into a folder, without a registry: that of the server, which
# tests/image/test.sh has built; CoreDNS; and one with `dig`, `hostname` and `sleep` under the name of the manual's image with dig, which
# is also the sandbox of pods, and a database. tests/run runs this script.
set -euo pipefail

cd -- "$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")/../../.."
program=tests/run
# shellcheck source=tests/tools/install.sh
source tests/tools/install.sh
# shellcheck source=.ci/project
source .ci/project
# shellcheck source=tests/image/builder.sh
source tests/image/builder.sh

folder=$1 coredns=$2 work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
open_storage "$work"
rm -f -- "$folder"/*.tar

# Writes an image with files at their own paths, or as FILE=PATH.
write_image() { # NAME ENTRYPOINT FILE…
    local container file
    container=$(buildah from scratch)
    for file in "${@:3}"; do
        buildah copy --quiet "$container" "$(realpath -- "${file%%=*}")" "${file#*=}" >/dev/null
    done
    buildah config --entrypoint "$2" --env PATH=/usr/bin:/bin:/ "$container"
    buildah commit --quiet --rm "$container" "$1" >/dev/null
    write_archive "$1" "$1"
}

write_archive() { # IMAGE NAME
    buildah push --quiet "$1" "docker-archive:$folder/${2//[:\/]/+}.tar:$2"
}

files=()
for tool in dig hostname sleep; do files+=("$(command -v "$tool")=/usr/bin/$tool"); done
mapfile -t -O "${#files[@]}" files < <(ldd "${files[@]%%=*}" | grep -o '/[^ ]*' | grep -v ':$' | sort -u)
write_image registry.k8s.io/e2e-test-images/agnhost:2.53 '["/usr/bin/sleep", "infinity"]' "${files[@]}"
write_image registry.k8s.io/coredns/coredns:v1.12.0 '["/coredns"]' "$coredns=/coredns"
# The name in the example for kind, and that in the manual.
# shellcheck disable=SC2154 # .ci/project sets it
for name in localhost/global-dns registry.example.com/dns/global-dns; do write_archive localhost/global-dns:test "$name:$version"; done
