// Looks names up as Go programs do, with the resolver of Go's own library, and prints what came back as JSON.
//
// Usage: golookup [FLAG…] SERVER QUESTION…, where a question is `srv::NAME`, `srv:SERVICE/PROTO:NAME`, `host::NAME`,
// `ip:ip4:NAME`, `ip:ip6:NAME` or `txt::NAME`. With -ca it asks over TLS.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
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

// report is everything that is printed.
type report struct {
	Answers []answer `json:"answers"`
	// Connections counts those over TLS.
	Connections int    `json:"connections"`
	Resumed     int    `json:"resumed"`
	Version     string `json:"version"`
	Protocol    string `json:"protocol"`
}

func main() {
	ca := flag.String("ca", "", "file of the authority that issued the server's certificate")
	name := flag.String("name", "", "name in the server's certificate")
	certificate := flag.String("certificate", "", "file of the client's certificate")
	key := flag.String("key", "", "file of its key")
	flag.Parse()
	server, questions := flag.Arg(0), flag.Args()[1:]
	told := report{Answers: []answer{}}
	var secured *tls.Config
	if *ca != "" {
		secured = &tls.Config{
			RootCAs:            x509.NewCertPool(),
			ServerName:         *name,
			NextProtos:         []string{"dot"},
			ClientSessionCache: tls.NewLRUClientSessionCache(1),
		}
		secured.RootCAs.AppendCertsFromPEM(must(os.ReadFile(*ca)))
		if *certificate != "" {
			secured.Certificates = []tls.Certificate{must(tls.LoadX509KeyPair(*certificate, *key))}
		}
	}
	resolver := &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var dialer net.Dialer
			if secured == nil {
				return dialer.DialContext(ctx, network, server)
			}
			// The resolver takes what is no packet connection for a stream.
			plain, err := dialer.DialContext(ctx, "tcp", server)
			if err != nil {
				return nil, err
			}
			conn := tls.Client(plain, secured)
			if err := conn.HandshakeContext(ctx); err != nil {
				plain.Close()
				return nil, err
			}
			state := conn.ConnectionState()
			told.Connections++
			if state.DidResume {
				told.Resumed++
			}
			told.Version, told.Protocol = tls.VersionName(state.Version), state.NegotiatedProtocol
			return conn, nil
		},
	}
	for _, question := range questions {
		found, err := look(resolver, question)
		records := append([]string{}, found...) // null is no list
		sort.Strings(records)
		answered := answer{Question: question, Records: records}
		if err != nil {
			var failure *net.DNSError
			answered.NotFound = errors.As(err, &failure) && failure.IsNotFound
			answered.Error = err.Error()
		}
		told.Answers = append(told.Answers, answered)
	}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
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
	case "txt":
		return resolver.LookupTXT(ctx, name)
	}
	panic("no such question: " + question)
}
