# A minimal image: one static binary, nothing else.
ARG BUILDER=rust:1.95-bookworm

FROM ${BUILDER} AS build
WORKDIR /src
COPY . .
# The C library is linked in, so that the image needs none.
ENV RUSTFLAGS="-C target-feature=+crt-static"
RUN target="$(rustc -vV | sed -n 's/^host: //p')" \
 && cargo build --release --locked --target "$target" \
 && cp "target/$target/release/global-dns" /global-dns

FROM scratch
COPY --from=build /global-dns /global-dns
USER 65532:65532
EXPOSE 5353/udp 5353/tcp 9153/tcp
ENTRYPOINT ["/global-dns"]
CMD ["serve"]
