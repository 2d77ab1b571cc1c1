module github.com/global-dns/global-dns/tests/clients/grpc_go

go 1.24

require google.golang.org/grpc v1.76.0
