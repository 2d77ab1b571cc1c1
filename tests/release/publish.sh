#!/usr/bin/env bash
# Makes a release of a copy of the work tree with `.github/release`, in a local registry and with a local key. Then uses it:
# verifies signatures, installs the chart in a real API server, runs the binary of an archive and the plug-ins. tests/run runs
# this script and installs its programs.
set -euo pipefail

cd -- "$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")/../.."
program=tests/run
# shellcheck source=tests/tools/install.sh
source tests/tools/install.sh
# shellcheck source=tests/image/builder.sh
source tests/image/builder.sh
# shellcheck source=tests/release/copy.sh
source tests/release/copy.sh

work=$(mktemp -d)
copy=$work/copy
output=$copy/target/publish
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
started=()
trap 'stop "${started[@]}"; remove_leftovers || true; rm -rf -- "$work"' EXIT
trap 'exit 1' INT TERM

step() { echo "publish: $*"; }
fail_publish() { echo "publish: $*" >&2 && exit 1; }

# Starts a program with its output in a file.
start() { # LOG COMMAND…
    "${@:2}" >"$work/$1.log" 2>&1 &
    started+=($!)
}

stop() { # PID…
    local pid
    for pid; do { kill "$pid" && wait "$pid"; } 2>/dev/null || true; done
}

# Waits until a command succeeds.
eventually() { # WHAT COMMAND…
    for _ in $(seq 600); do
        ! "${@:2}" >/dev/null 2>&1 || return 0
        sleep 0.1
    done
    fail_publish "$1 did not happen within a minute; $(tail -n 5 "$work"/*.log)"
}

# Checks that a command fails, and that its output has the text.
refuses() { # TITLE TEXT COMMAND…
    local text
    ! text=$("${@:3}" 2>&1) || fail_publish "$1 is accepted"
    grep -qi -- "$2" <<<"$text" || fail_publish "$1 is refused without '$2': $text"
    step "refused: $1"
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# === Publish ===

copy_repository "$copy"
make_ready "$copy" https://github.com/example/global-dns "$version"
open_storage "$work"
remove_leftovers
make_builder

start registry registry -port 0
eventually "the start of the registry" grep -q 'serving on port' "$work/registry.log"
export REGISTRY
REGISTRY=localhost:$(sed -n 's/.*serving on port //p' "$work/registry.log")/example
export COSIGN_PASSWORD='' COSIGN_KEY=$work/release.key CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
# Programs keep logins and caches in the home directory.
export HOME=$work/home
mkdir -p -- "$HOME"
(cd -- "$work" && cosign generate-key-pair --output-key-prefix release && cosign generate-key-pair --output-key-prefix other) 2>/dev/null
unset GITHUB_REPOSITORY GITHUB_SERVER_URL GITHUB_RUN_ID GITHUB_WORKFLOW_REF
began=$SECONDS
# Without the key, as the job `build` of the workflow.
env -u COSIGN_KEY -u REGISTRY "$copy/.github/release" make "v$version" >"$work/make.log" 2>&1 ||
    { cat "$work/make.log" && fail_publish "a step failed"; }
"$copy/.github/release" push "v$version" >"$work/push.log" 2>&1 || { cat "$work/push.log" && fail_publish "a step failed"; }
grep -h '^release: ' "$work"/{make,push}.log
[[ $(cat "$output/image.digest") == "$(jq -r '.manifests[].digest' "$output/layout/index.json")" ]] ||
    fail_publish "the pushed image is not the one that was built"
git init --quiet --bare "$work/pages.git"
for _ in first again; do
    PAGES_REMOTE=$work/pages.git "$copy/.github/release" pages
done
names=$(git -C "$work/pages.git" ls-tree --name-only gh-pages)
[[ $(grep -c -e '^index\.html$' -e '^searchindex' <<<"$names") == 2 ]] || fail_publish "the branch gh-pages has the files $names"
step "the manual is in the branch gh-pages, with a search"
step "all steps in $((SECONDS - began)) s"

# === Verify ===

image=$REGISTRY/global-dns
chart=$REGISTRY/charts/global-dns
with_key=(--key "$work/release.pub" --insecure-ignore-tlog=true)
refuses "the signature of another key" "signature" \
    cosign verify --key "$work/other.pub" --insecure-ignore-tlog=true "$image:$version"
# In another format, because the image of the index is signed, too.
skopeo copy --quiet --format v2s2 --dest-tls-verify=false "containers-storage:localhost/global-dns:amd64" "docker://$image:unsigned"
refuses "an image without a signature" "no signatures found" cosign verify "${with_key[@]}" "$image:unsigned"
cp -a -- "$output" "$work/changed"
printf x >>"$work/changed/global-dns-$version-linux-amd64.tar.gz"
refuses "a changed archive" "FAILED" env --chdir="$work/changed" sha256sum --check SHA256SUMS
echo >>"$work/changed/SHA256SUMS"
refuses "changed checksums" "invalid signature" \
    cosign verify-blob "${with_key[@]}" --bundle "$work/changed/SHA256SUMS.bundle" "$work/changed/SHA256SUMS"

# Prints the predicate of an attestation.
attested() { # TYPE IMAGE
    cosign verify-attestation "${with_key[@]}" --type "$1" "$2" 2>/dev/null | jq -r .payload | base64 -d | jq -e .predicate
}
commit=$(git -C "$copy" rev-parse HEAD)
[[ $(attested slsaprovenance1 "$image:$version" | jq -r '.buildDefinition.resolvedDependencies[0].digest.gitCommit') == "$commit" ]] ||
    fail_publish "the provenance does not name the commit $commit"
digests=$(skopeo inspect --tls-verify=false --raw "docker://$image:$version" |
    jq -r '.manifests[] | .platform.os + "/" + .platform.architecture + " " + .digest')
[[ $(cut -d' ' -f1 <<<"$digests" | sort | paste -sd' ') == "linux/amd64 linux/arm64" ]] ||
    fail_publish "the index of the image has other platforms: $digests"
while read -r platform digest; do
    labels=$(skopeo inspect --tls-verify=false --config "docker://$image@$digest" | jq -c .config.Labels)
    [[ $(jq -r '."org.opencontainers.image.revision"' <<<"$labels") == "$commit" &&
        $(jq -r '."org.opencontainers.image.source"' <<<"$labels") == https://github.com/example/global-dns ]] ||
        fail_publish "$platform: the labels are $labels"
    crates=$(attested cyclonedx "$image@$digest" | jq '.components | length')
    ((crates > 100)) || fail_publish "$platform: the bill of materials has $crates crates"
    step "$platform: labels, and a signed bill of materials of $crates crates"
done <<<"$digests"

# === The binary of an archive ===

mkdir -- "$work/archive-amd64" "$work/archive-arm64"
for architecture in amd64 arm64; do
    tar --extract --file "$output/global-dns-$version-linux-$architecture.tar.gz" --directory "$work/archive-$architecture"
    found=$(tar --list --file "$output/global-dns-$version-linux-$architecture.tar.gz" | sort | paste -sd' ')
    [[ $found == "global-dns LICENSE" || $found == "LICENSE global-dns" ]] || fail_publish "the archive has the files $found"
done
[[ $("$work/archive-amd64/global-dns" --version) == "global-dns $version" ]] || fail_publish "the binary is not $version"
[[ $(qemu-aarch64-static "$work/archive-arm64/global-dns" --version) == "global-dns $version" ]] || fail_publish "the arm64 binary is not $version"
port=$(free_port)
start server "$work/archive-amd64/global-dns" serve --file src/demo.yaml --cluster-name hub --listen "127.0.0.1:$port" \
    --admin-listen 127.0.0.1:0 --api-listen 127.0.0.1:0
answers() { dig @127.0.0.1 -p "$port" +short +tries=1 +time=1 db-0.west.db.prod.global | grep -q '^10\.96\.'; }
eventually "an answer of the binary" answers
step "the binary of the archive answers a query"

# The image in the registry has the same binary.
container=$(buildah from --quiet --pull-always --tls-verify=false --arch amd64 "docker://$image:$version")
cmp -- "$(buildah mount "$container")/global-dns" "$work/archive-amd64/global-dns" || fail_publish "the image has another binary"
buildah rm "$container" >/dev/null

# === Plug-ins ===

KREW_ROOT=$work/krew krew install --manifest="$output/global-dns.yaml" \
    --archive="$output/global-dns-$version-linux-amd64.tar.gz" >"$work/krew.log" 2>&1 || fail_publish "krew: $(cat "$work/krew.log")"
ln -s -- "$work/archive-amd64/global-dns" "$work/linkerd-globaldns"
usage=$("$work/krew/bin/kubectl-global_dns" table --help)
[[ $usage == *"Usage: kubectl global-dns table"* ]] || fail_publish "the plug-in of kubectl has another name: $usage"
usage=$("$work/linkerd-globaldns" table --help)
[[ $usage == *"Usage: linkerd globaldns table"* ]] || fail_publish "the plug-in of Linkerd has another name: $usage"
printf x >>"$work/changed/global-dns-$version-linux-amd64.tar.gz"
refuses "a changed archive, by krew" "checksum" env KREW_ROOT="$work/krew2" krew install --manifest="$output/global-dns.yaml" \
    --archive="$work/changed/global-dns-$version-linux-amd64.tar.gz"
step "krew installs 'kubectl global-dns'; 'linkerd globaldns' runs"

# === The chart ===

# shellcheck disable=SC2154 # tests/run exports it
tools=$GLOBAL_DNS_TEST_TOOLS
clients=$(free_port) peers=$(free_port) port=$(free_port)
start etcd "$tools/etcd" --data-dir="$work/etcd" --listen-client-urls="http://127.0.0.1:$clients" \
    --advertise-client-urls="http://127.0.0.1:$clients" --listen-peer-urls="http://127.0.0.1:$peers" \
    --initial-advertise-peer-urls="http://127.0.0.1:$peers" --initial-cluster="default=http://127.0.0.1:$peers"
openssl genrsa -out "$work/accounts.key" 2048 2>/dev/null
echo 'token,admin,1,"system:masters"' >"$work/tokens.csv"
# Nothing connects to the advertised address. Without it, the start fails on a machine without a default route.
start api-server "$tools/kube-apiserver" --etcd-servers="http://127.0.0.1:$clients" --secure-port="$port" \
    --bind-address=127.0.0.1 --advertise-address=192.0.2.1 --cert-dir="$work/certificates" \
    --service-account-key-file="$work/accounts.key" --service-account-signing-key-file="$work/accounts.key" \
    --service-account-issuer=https://kubernetes.default.svc --token-auth-file="$work/tokens.csv" \
    --authorization-mode=RBAC --service-cluster-ip-range=10.96.0.0/16 --disable-admission-plugins=ServiceAccount
api() { # PATH [OPTION…]
    curl --silent --show-error --fail --noproxy '*' --cacert "$work/certificates/apiserver.crt" --header 'Authorization: Bearer token' \
        "https://127.0.0.1:$port$1" "${@:2}"
}
eventually "the start of the API server" api /readyz
cat >"$work/kubeconfig" <<END
apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: "https://127.0.0.1:$port", certificate-authority: $work/certificates/apiserver.crt}}]
users: [{name: test, user: {token: token}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
END
export KUBECONFIG=$work/kubeconfig NO_PROXY='*' no_proxy='*'
# The chart has a Role in the namespace of the Links.
api /api/v1/namespaces --header 'Content-Type: application/json' \
    --data '{"metadata": {"name": "linkerd-multicluster"}}' >/dev/null
helm install test "oci://$chart" --version "$version" --plain-http --namespace global-dns --create-namespace \
    --set clusterName=hub >"$work/helm.log" 2>&1 || fail_publish "helm install: $(cat "$work/helm.log")"
found=$(api /apis/apps/v1/namespaces/global-dns/deployments | jq -r '.items[].spec.template.spec.containers[].image')
[[ $found == "$image:$version" ]] || fail_publish "the installed chart has the image '$found'"
metadata=$(helm show chart "oci://$chart" --version "$version" --plain-http 2>/dev/null)
for text in "home: https://github.com/example/global-dns" "icon: https://github.com/example/global-dns/" "image: \"$image:$version\"" \
    "artifacthub.io/license: Apache-2.0"; do
    [[ $metadata == *"$text"* ]] || fail_publish "the metadata of the chart lacks '$text': $metadata"
done
helm uninstall test --namespace global-dns >/dev/null
step "helm installs the chart from the registry, with the image $found"
