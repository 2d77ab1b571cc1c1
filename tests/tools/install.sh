# Functions that install missing requirements of tests and benchmarks. Scripts source this file in the root of the
# repository. They set `program` to their own path, and PATH so that it has the directories of cargo, Go and daemons.
# shellcheck shell=bash

cache=${XDG_CACHE_HOME:-$HOME/.cache}/global-dns
# A module may need a newer Go than that of the machine. Go downloads it.
export GOTOOLCHAIN=auto

# === Debian packages, Go tools ===

declare -A package_of=(
    [cc]=build-essential [update-ca-certificates]=ca-certificates [dig]=bind9-dnsutils
    [etcdctl]=etcd-client [knotd]=knot [kzonecheck]=knot-dnssecutils [nsd]=nsd
    [named]=bind9 [named-checkzone]=bind9-utils [ip]=iproute2 [setpriv]=util-linux
    [python3]=python3 [dnsperf]=dnsperf [taskset]=util-linux [nft]=nftables [nsenter]=util-linux
    [buildah]=buildah [debootstrap]=debootstrap [readelf]=binutils
    [unshare]=util-linux [conntrack]=conntrack [unbound]=unbound [dnsmasq]=dnsmasq-base [dnssec-keygen]=bind9-utils
    [kdig]=knot-dnsutils [curl]=curl [openssl]=openssl
    [containerd]=containerd [runc]=runc
    [chromium]=chromium [prometheus]=prometheus [promtool]=prometheus
    [haproxy]=haproxy [nginx]=nginx [node]=nodejs [javac]=default-jdk-headless [mvn]=maven [musl-gcc]=musl-tools
    [git]=git [shellcheck]=shellcheck
    [jq]=jq [redis-server]=redis-server [redis-cli]=redis-tools [psql]=postgresql-client [ss]=iproute2
)

# Installs the Debian packages of those commands that are missing.
debian_commands() { # COMMAND…
    local command packages=()
    for command; do
        has "$command" || packages+=("${package_of[$command]}")
    done
    ((${#packages[@]})) || return 0
    debian_packages "${packages[@]}" || return
    for command; do
        has "$command" || fail "cannot find '$command' although package ${package_of[$command]} is installed" || return
    done
}

debian_packages() { # PACKAGE…
    local packages=("$@") as_root=()
    has apt-get || fail "cannot install missing Debian packages without apt-get: ${packages[*]}" || return
    if ((EUID)); then
        has sudo || fail "cannot install missing Debian packages without sudo; run as root: ${packages[*]}" || return
        as_root=(sudo)
    fi
    echo "installing Debian packages: ${packages[*]}"
    # Two layers may install packages at the same time.
    mkdir -p -- "$cache" || return
    (
        flock 9
        install_packages "${packages[@]}"
    ) 9>"$cache/apt.lock" || fail "cannot install Debian packages: ${packages[*]}"
}

install_packages() { # PACKAGE…
    # Tests use the programs, not the services. Packages call policy-rc.d before they start or restart a service.
    # Services that the new packages enabled for the next boot are disabled.
    # shellcheck disable=SC2016 # the inner shell expands it
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive sh -c '
        policy=/usr/sbin/policy-rc.d
        if [ ! -e "$policy" ]; then
            trap "rm -f $policy" EXIT
            trap "exit 130" HUP INT TERM
            printf "#!/bin/sh\nexit 101\n" >"$policy" && chmod 755 "$policy"
        fi
        apt-get update -q || echo "apt-get update failed; using the previous package lists" >&2
        apt-get install -q -y --no-install-recommends "$@" || exit
        [ ! -d /run/systemd/system ] ||
            dpkg -L "$@" | sed -n "s|.*/systemd/system/\([^/]*\.service\)$|\1|p" | xargs -r systemctl disable
    ' sh "$@"
}

# Collects programs, by default the servers of a cluster, in a directory of links. Exports the directory to the tests
# and prints the version of each program.
e2e_tools() { # [PROGRAM…]
    local name path paths=() options version
    (($#)) || set -- etcd kube-apiserver kube-controller-manager coredns
    for name; do
        if has_asset "$name"; then
            path=$(realpath -s -- "$KUBEBUILDER_ASSETS/$name")
        else
            [[ -z ${KUBEBUILDER_ASSETS:-} ]] || echo "KUBEBUILDER_ASSETS has no $name"
            case $name in
                etcd) go_tool etcd etcd go.etcd.io/etcd/server/v3 "" && path=$cached/etcd ;;
                kube-* | kubelet | kubectl)
                    # Without clients of clouds, which no test uses.
                    go_tool "$name" kubernetes "k8s.io/kubernetes/cmd/$name" "$(kubernetes_stamp kubernetes)" providerless &&
                        path=$cached/$name
                    ;;
                coredns) go_tool coredns coredns . "" && path=$cached/coredns ;;
                helm) go_tool helm helm helm.sh/helm/v3/cmd/helm "$(helm_stamp)" && path=$cached/helm ;;
                grpc_go) go_tool "$name" ../system/clients/grpc_go . "" && path=$cached/$name ;;
                nats-server) go_tool "$name" nats github.com/nats-io/nats-server/v2 "" && path=$cached/$name ;;
            esac || return
        fi
        paths+=("$path")
    done
    # A kind of its own for each set: parallel runs with other sets do not delete this one.
    cache_once "tools-with-${!#}" "$(printf '%s\n' "${paths[@]}" | digest)" ln -s -- "${paths[@]}" || return
    export GLOBAL_DNS_TEST_TOOLS=$cached
    echo "GLOBAL_DNS_TEST_TOOLS=$GLOBAL_DNS_TEST_TOOLS"
    ! has dig || paths+=("$(command -v dig)")
    for path in "${paths[@]}"; do
        case $path in
            */coredns) options=(-version) ;; */dig) options=(-v) ;; */helm) options=(version) ;; */kubectl) options=(version --client) ;; *) options=(--version) ;;
        esac
        version=$("$path" "${options[@]}" 2>&1) || fail "$path does not run: $version" || return
        echo "using $path: ${version%%$'\n'*}"
    done
}

# Installs the requirements of the chart tests: an API server, Helm, and CRDs.
chart_tools() {
    e2e_tools etcd kube-apiserver kube-controller-manager helm && crds
}

# Downloads the CRDs of the Prometheus Operator. Exports their directory to the tests.
crds() {
    cache_once crds "$(digest <tests/tools/monitoring/go.mod)" install_crds || return
    export GLOBAL_DNS_TEST_CRDS=$cached
    echo "GLOBAL_DNS_TEST_CRDS=$GLOBAL_DNS_TEST_CRDS"
}

# Prints the linker flags of the build of Kubernetes. Without them the programs report version v0.0.0. Two packages have a
# version.
kubernetes_stamp() { # MODULE
    local version minor package
    version=$(module_version "$1" k8s.io/kubernetes) && minor=$(cut -d. -f2 <<<"$version") || return
    for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        printf '%s' "-X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor "
    done
}

# Prints the version of a Go module that a folder of tests/tools pins.
module_version() { # FOLDER MODULE
    local version
    version=$(sed -n "s|^\(require\)\?[[:space:]]*$2 \(v[^ ]*\).*|\2|p" "tests/tools/$1/go.mod")
    [[ $version ]] && echo "$version"
}

# Prints the linker flags of Helm's own build. Without them Helm assumes that clusters run Kubernetes 1.20.
helm_stamp() {
    local minor package
    minor=$(sed -n 's|.*k8s.io/client-go v0\.\([0-9]*\)\..*|\1|p' tests/tools/helm/go.mod)
    for package in chartutil lint/rules; do
        package=helm.sh/helm/v3/pkg/$package
        printf '%s' "-X $package.k8sVersionMajor=1 -X $package.k8sVersionMinor=$minor "
    done
}

# Downloads the module that tests/tools/monitoring/go.mod pins, and copies its CRDs.
# shellcheck disable=SC2317 # called by cache_once
install_crds() { # DIRECTORY
    local module=github.com/prometheus-operator/prometheus-operator folder
    echo "downloading the CRDs of $module, as pinned in tests/tools/monitoring/go.mod"
    folder=$(GOWORK=off go mod download -json "$module@$(module_version monitoring "$module")" |
        sed -n 's/.*"Dir": "\(.*\)".*/\1/p') && [[ -n $folder ]] &&
        install -m 644 -t "$1" "$folder"/example/prometheus-operator-crd/*_{servicemonitors,prometheusrules}.yaml
}

# Builds a program of a Go module in tests/tools. Its go.mod pins the version of the program, which pins all others. Go compares
# each module with the public checksum database. If the package is the module itself, its source counts, too.
go_tool() { # NAME MODULE PACKAGE LDFLAGS [TAGS]
    local module=tests/tools/$2 key sources=()
    [[ $3 != . ]] || sources=("$module"/*.go)
    key=$({ go_version "$2" && echo "$4${5:+ $5}" && cat "$module/go.mod" "${sources[@]}"; } | digest) || return
    cache_once "$1" "$key" install_go_tool "$1" "$module" "$3" "-s -w $4" "${5:-}"
}

# shellcheck disable=SC2317 # called by cache_once
install_go_tool() { # NAME MODULE PACKAGE LDFLAGS TAGS DIRECTORY
    echo "installing $3, as pinned in $2/go.mod; this takes some minutes"
    # In a copy, because Go adds all versions to go.mod.
    cp -r -- "$2" "$6/source" &&
        (cd -- "$6/source" && GOFLAGS=-mod=mod GOWORK=off CGO_ENABLED=0 \
            go build -trimpath -ldflags "$4" -tags "$5" -o "$6/$1" "$3") &&
        rm -r -- "$6/source"
}

# Programs that cargo installs, with their versions and flags.
declare -A version_of=([cargo-deny]=0.20.2 [cargo-cyclonedx]=0.5.9 [mdbook]=0.5.4)
declare -A flags_of=([mdbook]="--no-default-features --features search")

# Installs a program with cargo, and adds it to PATH.
crate() { # CRATE
    local version=${version_of[$1]} flags
    read -ra flags <<<"${flags_of[$1]:-}"
    cache_once "$1" "$version" install_crate "$1" "$version" "${flags[@]}" && PATH=$cached/bin:$PATH
}

# shellcheck disable=SC2317 # called by cache_once
install_crate() { # CRATE VERSION [FLAG…] DIRECTORY
    echo "installing $1 $2"
    # Unoptimized: it compiles in a third of the time and runs for a second. CARGO_TARGET_DIR is unset, so that cargo
    # builds it in a temporary directory.
    env -u CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=false cargo install --quiet --debug --locked --version "$2" "$1" \
        "${@:3:$#-3}" --root "${!#}"
}

# === The cache ===

# Runs COMMAND to create the directory KIND-KEY, unless an earlier run has created it. COMMAND gets a temporary directory
# as its last argument, so that a killed command leaves no directory that seems complete.
cache_once() { # KIND KEY COMMAND…
    local kind=$1 partial=$cache/$1.partial
    cached=$cache/$1-$2
    shift 2
    mkdir -p -- "$cache" || return
    if [[ ! -d $cached ]]; then
        (
            flock 9 && [[ ! -d $cached ]] || exit # a parallel run has created it
            rm -rf -- "$partial" && mkdir -- "$partial" && "$@" "$partial" && mv -T -- "$partial" "$cached"
        ) 9>"$cache/$kind.lock"
        [[ -d $cached ]] || fail "cannot install $kind; see the output above" || return
    fi
    keep_newest_two "$kind"
}

# Marks $cached as used, and keeps the two most recently used directories of its kind.
keep_newest_two() { # KIND
    touch -- "$cached"
    find "$cache" -maxdepth 1 -type d -name "$1-[0-9a-f]*" -printf '%T@ %p\0' |
        sort -zrn | tail -zn +3 | cut -zd' ' -f2- | xargs -0r rm -rf --
}

# === Functions ===

# shellcheck disable=SC2154 # the sourcing script sets it
fail() { echo "$program: $*" >&2 && return 1; }
has() { command -v "$1" >/dev/null; }
has_asset() { [[ -n ${KUBEBUILDER_ASSETS:-} && -x $KUBEBUILDER_ASSETS/$1 ]]; }
go_version() { (cd "tests/tools/$1" && go version); }
digest() { sha256sum | cut -c1-16; }
