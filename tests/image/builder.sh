# Functions that build the image without a registry of images. Scripts source this file in the root of the repository, after
# tests/tools/install.sh. The builder image is a Debian root with the toolchain of rust-toolchain.toml.
# shellcheck shell=bash

# Lets Buildah keep images in the cache of the other tools. One run at a time, because the image has one name.
open_storage() { # FOLDER
    # shellcheck disable=SC2154 # install.sh sets it
    mkdir -p -- "$cache"
    exec {lock}>"$cache/buildah.lock" && flock "$lock"
    printf '[storage]\ndriver = "vfs"\ngraphroot = "%s"\nrunroot = "%s"\n' "$cache/buildah" "$1/buildah" >"$1/storage.conf"
    export CONTAINERS_STORAGE_CONF=$1/storage.conf
}

# Removes the containers of failed builds and the images that a newer build replaced: they take gigabytes.
remove_leftovers() {
    buildah rm --all >/dev/null
    buildah rmi --prune >/dev/null
}

# Makes the builder image unless it exists, and sets the options of builds with it. They share cargo's registry and the CA
# certificates with this machine, and keep their target directory.
make_builder() {
    local version builder container registry=${CARGO_HOME:-$HOME/.cargo}/registry
    version=$(rustc -vV | digest)
    builder=localhost/global-dns-builder:$version
    if ! buildah inspect --type image "$builder" >/dev/null 2>&1; then
        cache_once builder "$version" install_root "$(rustc --version)"
        container=$(buildah from scratch)
        # shellcheck disable=SC2154 # cache_once sets it
        buildah add --quiet "$container" "$cached" / >/dev/null
        buildah config --env RUSTUP_HOME=/usr/local/rustup --env CARGO_HOME=/usr/local/cargo \
            --env PATH=/usr/local/cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
        buildah commit --quiet --rm "$container" "$builder" >/dev/null
    fi
    mkdir -p -- "$registry" "$cache/image-target"
    # shellcheck disable=SC2034 # the sourcing script uses it
    build_options=(--isolation chroot --from "$builder" --pull=never --no-cache
        --volume /etc/ssl/certs:/etc/ssl/certs:ro --volume "$registry:/usr/local/cargo/registry"
        --volume "$cache/image-target:/src/target")
}

# shellcheck disable=SC2317 # called by cache_once
install_root() { # RUST DIRECTORY
    echo "creating a Debian root with $1; this takes some minutes"
    debootstrap --variant=minbase --include=build-essential,ca-certificates bookworm "$2" >"$2.log" ||
        { cat "$2.log" && return 1; }
    rm -- "$2.log"
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
