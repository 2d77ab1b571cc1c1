module global-dns/tests/tools/golookup

go 1.24
