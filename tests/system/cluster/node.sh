#!/usr/bin/env bash
# The daemons of a node. Runs as the first process of its own namespaces for mounts, processes and host names, in a network
# namespace with the address of the node. Its death ends everything in the node, as a loss of power does.
#
#   node.sh run NUMBER FOLDER KUBECONFIG IMAGES
#   node.sh remove       removes the control groups of all nodes, in its own namespace for mounts
set -euo pipefail

group=global-dns-test
is_mounted_here=

# Prints the folders below which a control group has its own folder: one with cgroup v2, one for each controller with v1.
hierarchies() {
    if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then
        echo /sys/fs/cgroup
    else
        find /sys/fs/cgroup -mindepth 1 -maxdepth 1 -type d
    fi
}

# Mounts the controller of huge pages if it is one of cgroup v1 that the machine has not mounted: kubelet and runc use it.
mount_huge_pages() {
    local place=/sys/fs/cgroup/hugetlb
    [[ ! -e /sys/fs/cgroup/cgroup.controllers ]] && grep -q '^hugetlb' /proc/cgroups && ! mountpoint -q "$place" || return 0
    mkdir -p "$place" && mount -t cgroup -o hugetlb cgroup "$place" && is_mounted_here=1
}

# Makes the control groups of this node's pods and daemons. Beside other work on this machine, all pods of both nodes would
# otherwise get as much CPU time as one process.
make_groups() {
    local hierarchy folder
    for hierarchy in $(hierarchies); do
        mkdir -p "$hierarchy/$group/$node" "$hierarchy/$group/daemons"
        case $hierarchy in
            /sys/fs/cgroup)
                for folder in . "$group" "$group/$node"; do
                    sed 's/[a-z]\+/+&/g' "$hierarchy/cgroup.controllers" >"$hierarchy/$folder/cgroup.subtree_control"
                done
                echo 10000 >"$hierarchy/$group/cpu.weight"
                ;;
            */cpuset)
                for folder in "$group" "$group/$node" "$group/daemons"; do
                    cat "$hierarchy/cpuset.cpus" >"$hierarchy/$folder/cpuset.cpus"
                    cat "$hierarchy/cpuset.mems" >"$hierarchy/$folder/cpuset.mems"
                done
                ;;
            */cpu | */cpu,cpuacct)
                echo 65536 >"$hierarchy/$group/cpu.shares"
                echo 4096 >"$hierarchy/$group/daemons/cpu.shares"
                ;;
        esac
    done
}

remove_groups() {
    local hierarchy
    mount_huge_pages
    for hierarchy in $(hierarchies); do
        [[ ! -d $hierarchy/$group ]] || find "$hierarchy/$group" -depth -type d -exec rmdir {} +
    done
    # The machine has the empty folder where a node mounted this controller.
    [[ $is_mounted_here ]] || return 0
    umount /sys/fs/cgroup/hugetlb && rmdir /sys/fs/cgroup/hugetlb
}

# Gives the node its own copies of what kubelet, containerd and runc change: folders, and values of the whole machine.
make_mounts() {
    local path
    mount -t tmpfs tmpfs /run && mkdir -p /run/netns /run/lock
    # Images need a file system that is not an overlay itself.
    mkdir -p "$folder/var" && mount -t tmpfs tmpfs "$folder/var"
    for path in /var/lib/kubelet /var/lib/containerd /var/lib/cni /etc/cni/net.d /var/log/pods /var/log/containers; do
        mkdir -p "$path" "$folder$path" && mount --bind "$folder$path" "$path"
    done
    echo "nameserver 10.250.0.2" >"$folder/resolv.conf" && mount --bind "$folder/resolv.conf" /etc/resolv.conf
    for path in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 \
        kernel/keys/root_maxbytes=25000000; do
        echo "${path#*=}" >"$folder/${path##*=}.sysctl"
        mount --bind "$folder/${path##*=}.sysctl" "/proc/sys/${path%=*}"
    done
    mount --make-rshared /
}

write_settings() {
    mkdir -p "$folder/settings"
    cat >/etc/cni/net.d/10-bridge.conflist <<K
{"cniVersion": "1.0.0", "name": "bridge", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.$number.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
K
    # A container may have no lower score for the OOM killer than this process.
    cat >"$folder/settings/containerd.toml" <<K
version = 2
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/tools:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  cni = {bin_dir = "/usr/lib/cni", conf_dir = "/etc/cni/net.d"}
K
    cat >"$folder/settings/kubelet.yaml" <<K
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /$group/$node
clusterDNS: [10.96.0.10]
clusterDomain: hub.example
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
failSwapOn: false
failCgroupV1: false
resolvConf: /etc/resolv.conf
serializeImagePulls: false
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
K
    cat >"$folder/settings/kube-proxy.yaml" <<K
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clusterCIDR: 10.244.0.0/16
clientConnection: {kubeconfig: $kubeconfig}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
K
}

# Starts a daemon in the control group of daemons, with its own log.
daemon() { # NAME COMMAND…
    (
        for hierarchy in $(hierarchies); do echo 0 >"$hierarchy/$group/daemons/cgroup.procs"; done
        exec "${@:2}" >>"$folder/$1.log" 2>&1 </dev/null
    ) &
}

run() {
    hostname "$node"
    mount_huge_pages
    make_groups
    make_mounts
    write_settings
    echo 1 >/proc/sys/net/ipv4/ip_forward
    daemon containerd containerd --config "$folder/settings/containerd.toml"
    until ctr version >/dev/null 2>&1; do sleep 0.1; done
    for archive in "$images"/*.tar; do ctr -n k8s.io images import "$archive"; done
    ctr -n k8s.io images tag localhost/tools:1 registry.k8s.io/e2e-test-images/agnhost:2.53
    # The name in the manual, beside that of the example for kind.
    image=$(ctr -n k8s.io images list --quiet | grep '^localhost/global-dns:[0-9]')
    ctr -n k8s.io images tag "$image" "registry.example.com/dns/${image#localhost/}"
    daemon kubelet kubelet --config "$folder/settings/kubelet.yaml" --kubeconfig "$kubeconfig" \
        --hostname-override "$node" --node-ip "10.250.0.1$number" --v=1
    daemon kube-proxy kube-proxy --config "$folder/settings/kube-proxy.yaml" --hostname-override "$node"
    # Also reaps orphans. If a daemon ends, the node ends.
    wait -n || true
    echo "a daemon ended" >&2 && tail -n 8 "$folder"/*.log >&2
    exit 1
}

case $1 in
    run) number=$2 node=node-$2 folder=$3 kubeconfig=$4 images=$5 && run ;;
    remove) remove_groups ;;
esac
