module global-dns/tests/tools/nats

go 1.26.0

require github.com/nats-io/nats-server/v2 v2.15.2
