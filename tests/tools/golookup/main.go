// Looks names up as Go programs do, with the resolver of Go's own library, and prints what came back as JSON.
//
// Usage: golookup SERVER QUESTION…, where a question is `srv::NAME`, `srv:SERVICE/PROTO:NAME`, `host::NAME`,
// `ip:ip4:NAME` or `ip:ip6:NAME`.
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

// answer is what one question got.
type answer struct {
	Question string   `json:"question"`
	Records  []string `json:"records"`
	NotFound bool     `json:"notFound"`
	Error    string   `json:"error"`
}

func main() {
	server := os.Args[1]
	resolver := &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, network, server)
		},
	}
	answers := []answer{}
	for _, question := range os.Args[2:] {
		found, err := look(resolver, question)
		records := append([]string{}, found...) // null is no list
		sort.Strings(records)
		told := answer{Question: question, Records: records}
		if err != nil {
			var failure *net.DNSError
			told.NotFound = errors.As(err, &failure) && failure.IsNotFound
			told.Error = err.Error()
		}
		answers = append(answers, told)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		panic(err)
	}
}

func look(resolver *net.Resolver, question string) ([]string, error) {
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
	panic("no such question: " + question)
}
