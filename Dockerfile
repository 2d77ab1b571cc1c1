# Builds an image with one static binary and no shell, libraries or other files.
#
#     docker build -t global-dns:0.1.0 .
#     docker buildx build --platform linux/amd64,linux/arm64 -t global-dns:0.1.0 .
#
# If the target architecture differs from the builder's, the binary is cross-compiled. The builder is any Debian image
# with gcc, make and rustup: `buildah build --from IMAGE`. rust-toolchain.toml defines the toolchain. The image is no argument,
# because Dependabot does not update arguments.
FROM --platform=$BUILDPLATFORM docker.io/library/rust:1.95-bookworm AS build
ARG TARGETARCH
WORKDIR /src

COPY rust-toolchain.toml .
RUN case "${TARGETARCH:=$(dpkg --print-architecture)}" in \
        amd64) rust=x86_64-unknown-linux-gnu gnu=x86-64-linux-gnu ;; \
        arm64) rust=aarch64-unknown-linux-gnu gnu=aarch64-linux-gnu ;; \
        *) echo "cannot build for architecture '$TARGETARCH': use amd64 or arm64" >&2; exit 1 ;; \
    esac \
 && echo "$rust" >/target \
 && { [ "$TARGETARCH" = "$(dpkg --print-architecture)" ] || { \
        apt-get update \
     && apt-get install -y --no-install-recommends "gcc-$gnu" "libc6-dev-$TARGETARCH-cross" \
     && rustup target add "$rust"; }; }

COPY . .
# The C library is linked statically, so that the image needs none. In a static binary, the crate getrandom does not find
# the function `getrandom` at run time. It would read /dev/urandom, which may not exist, so the flag makes it call the
# function directly. Packed relocations make the binary 0.8 MB smaller. Kernels for arm64 have pages of up to 64 KiB, so
# jemalloc is configured for that size. tests/bench/run measures a binary with the same RUSTFLAGS.
RUN target=$(cat /target) \
 && case "$target" in aarch64-*) export JEMALLOC_SYS_WITH_LG_PAGE=16 ;; esac \
 && export RUSTFLAGS='-C target-feature=+crt-static --cfg getrandom_backend="linux_getrandom" -C link-arg=-Wl,-z,pack-relative-relocs' \
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
    CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=x86_64-linux-gnu-gcc \
 && cargo build --profile dist --features jemalloc --locked --package global-dns --target "$target" \
 && cp "target/$target/dist/global-dns" /global-dns

FROM scratch
# The commit that the image was built from.
ARG REVISION=unknown
LABEL org.opencontainers.image.title="global-dns" \
      org.opencontainers.image.description="DNS server: one name for a service in several Kubernetes clusters linked by Linkerd" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.url="https://example.invalid/global-dns" \
      org.opencontainers.image.source="https://example.invalid/global-dns" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /global-dns /global-dns
USER 65532:65532
EXPOSE 5353/udp 5353/tcp 9153/tcp
ENTRYPOINT ["/global-dns"]
CMD ["serve"]
