module github.com/global-dns/global-dns/tests/tools/golookup

go 1.24
