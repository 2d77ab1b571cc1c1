#!/usr/bin/env bash
# The daemons of a node, in a network namespace whose interface eth0 leads to the control plane. It runs as the first process of its
# own namespaces. Its death ends everything in the node, as a loss of power does.
#   node.sh run NUMBER IMAGES FOLDER    with KUBECONFIG
#   node.sh remove                      removes the control groups of all nodes
set -euo pipefail

[[ ${is_inside:-} ]] || is_inside=1 exec unshare -mpui --fork --kill-child --mount-proc --propagation private -- "$0" "$@"

# Each of these folders has the control groups below it: one with cgroup v2, one for each controller with v1.
groups=/sys/fs/cgroup
hierarchies=("$groups")
[[ -e $groups/cgroup.controllers ]] || hierarchies=("$groups"/*)
group=global-dns-test

if [[ $1 == remove ]]; then
    for hierarchy in "${hierarchies[@]}"; do
        [[ ! -d $hierarchy/$group ]] || find "$hierarchy/$group" -depth -type d -exec rmdir {} +
    done
    exit
fi
number=$2 node=node-$2 address=10.250.0.1$2 images=$3 folder=$4

# === Control groups of this node's pods, and of the daemons ===
# Beside other work on this machine, all pods of both nodes would otherwise get as much CPU time as one process.

for hierarchy in "${hierarchies[@]}"; do
    cd "$hierarchy"
    mkdir -p "$group/$node" "$group/daemons"
    case $hierarchy in
        "$groups")
            for file in {.,"$group","$group/$node"}/cgroup.subtree_control; do sed 's/[a-z]\+/+&/g' cgroup.controllers >"$file"; done
            echo 10000 >"$group/cpu.weight"
            ;;
        */cpuset) for file in "$group"{,"/$node",/daemons}/cpuset.{cpus,mems}; do cat "${file##*/}" >"$file"; done ;;
        */cpu | */cpu,cpuacct) echo 65536 >"$group/cpu.shares" && echo 4096 >"$group/daemons/cpu.shares" ;;
    esac
    echo 0 >"$group/daemons/cgroup.procs"
done

# === Own copies of what kubelet, containerd and runc change: folders, and values of the whole machine ===

hostname "$node"
mount -t tmpfs tmpfs /run && mkdir -p /run/netns /run/lock
# With huge pages, they would need a controller that not every machine has mounted.
[[ ! -d /sys/kernel/mm/hugepages ]] || mount -t tmpfs tmpfs /sys/kernel/mm/hugepages
# Images need a file system that is not an overlay itself.
mkdir -p "$folder/var" && mount -t tmpfs tmpfs "$folder/var"
for path in /var/lib/kubelet /var/lib/containerd /var/lib/cni /etc/cni/net.d /var/log/pods /var/log/containers; do
    mkdir -p "$path" "$folder$path" && mount --bind "$folder$path" "$path"
done
for setting in /etc/resolv.conf="nameserver 10.250.0.2" /proc/sys/vm/overcommit_memory=1 /proc/sys/kernel/panic=10 \
    /proc/sys/kernel/panic_on_oops=1 /proc/sys/kernel/keys/root_maxkeys=1000000 /proc/sys/kernel/keys/root_maxbytes=25000000; do
    path=${setting%%=*}
    echo "${setting#*=}" >"$folder/${path##*/}" && mount --bind "$folder/${path##*/}" "$path"
done
mount --make-rshared /

# === Network ===

echo 1 >/proc/sys/net/ipv4/ip_forward
ip address add "$address/24" dev eth0
ip link set eth0 up
ip route add default via 10.250.0.2
ip route add "10.244.$((3 - number)).0/24" via "10.250.0.1$((3 - number))"
cat >/etc/cni/net.d/bridge.conflist <<K
{"cniVersion": "1.0.0", "name": "bridge", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.$number.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
K

# === Daemons ===

# A container may have no lower score for the OOM killer than this process.
cat >"$folder/containerd.toml" <<K
version = 2
disabled_plugins = ["io.containerd.internal.v1.opt"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.k8s.io/e2e-test-images/agnhost:2.53"
  disable_apparmor = true
  restrict_oom_score_adj = true
  cni = {bin_dir = "/usr/lib/cni", conf_dir = "/etc/cni/net.d"}
K
containerd --config "$folder/containerd.toml" &
until ctr version >/dev/null 2>&1; do sleep 0.1; done
for archive in "$images"/*.tar; do ctr -n k8s.io images import "$archive"; done
kubelet --kubeconfig "$KUBECONFIG" --hostname-override "$node" --node-ip "$address" --cgroup-driver cgroupfs \
    --cgroup-root "/$group/$node" --cluster-dns 10.96.0.10 --cluster-domain hub.example --fail-swap-on=false \
    --container-runtime-endpoint unix:///run/containerd/containerd.sock --serialize-image-pulls=false \
    --eviction-hard 'memory.available<100Mi,nodefs.available<1%,imagefs.available<1%,nodefs.inodesFree<1%' &
kube-proxy --kubeconfig "$KUBECONFIG" --hostname-override "$node" --proxy-mode nftables --cluster-cidr 10.244.0.0/16 \
    --conntrack-max-per-core 0 --conntrack-min 0 --conntrack-tcp-timeout-established 0s --conntrack-tcp-timeout-close-wait 0s &
# Also reaps orphans. If a daemon ends, the node ends.
wait -n || true
echo "a daemon ended" >&2 && exit 1
