module atoll.dev/upstream/keys

go 1.24
