// Looks up names with the resolver of Go's standard library, as Go programs do, and prints the results as JSON.
//
// Usage: golookup SERVER QUESTION…, where a question is `srv::NAME`, `srv:SERVICE/PROTO:NAME`, `host::NAME`, `ip:ip4:NAME` or
// `ip:ip6:NAME`.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
)

// answer is the result of one question.
type answer struct {
	Question string   `json:"question"`
	Records  []string `json:"records"`
	NotFound bool     `json:"notFound"`
	Error    string   `json:"error"`
}

// report is the printed JSON document.
type report struct {
	Answers []answer `json:"answers"`
}

func main() {
	server, questions := os.Args[1], os.Args[2:]
	result := report{Answers: []answer{}}
	resolver := &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, network, server)
		},
	}
	for _, question := range questions {
		found, err := lookUp(resolver, question)
		records := append([]string{}, found...) // not nil, which would be null in JSON
		sort.Strings(records)
		answered := answer{Question: question, Records: records}
		if err != nil {
			var failure *net.DNSError
			answered.NotFound = errors.As(err, &failure) && failure.IsNotFound
			answered.Error = err.Error()
		}
		result.Answers = append(result.Answers, answered)
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		panic(err)
	}
}

func lookUp(resolver *net.Resolver, question string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	parts := strings.SplitN(question, ":", 3)
	kind, how, name := parts[0], parts[1], parts[2]
	records := []string{}
	switch kind {
	case "srv":
		service, proto, _ := strings.Cut(how, "/")
		_, found, err := resolver.LookupSRV(ctx, service, proto, name)
		for _, record := range found {
			records = append(records, record.Target+" "+strconv.Itoa(int(record.Port)))
		}
		return records, err
	case "host":
		return resolver.LookupHost(ctx, name)
	case "ip":
		found, err := resolver.LookupIP(ctx, how, name)
		for _, ip := range found {
			records = append(records, ip.String())
		}
		return records, err
	}
	panic("unknown kind of question: " + question)
}
