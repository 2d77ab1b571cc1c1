// Looks up names with the resolver of Go's standard library, as Go programs do, and prints the results as JSON.
//
// Usage: golookup [FLAG…] SERVER QUESTION…, where a question is `srv::NAME`, `srv:SERVICE/PROTO:NAME`, `host::NAME`,
// `ip:ip4:NAME`, `ip:ip6:NAME` or `txt::NAME`. With -ca it sends queries over TLS.
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
	// Connections is the number of TLS connections.
	Connections int    `json:"connections"`
	Resumed     int    `json:"resumed"`
	Version     string `json:"version"`
	Protocol    string `json:"protocol"`
}

func main() {
	ca := flag.String("ca", "", "file of the certificate authority of the server's certificate")
	name := flag.String("name", "", "name in the server's certificate")
	certificate := flag.String("certificate", "", "file of the client certificate")
	key := flag.String("key", "", "file of the client certificate's key")
	flag.Parse()
	server, questions := flag.Arg(0), flag.Args()[1:]
	result := report{Answers: []answer{}}
	var tlsConfig *tls.Config
	if *ca != "" {
		tlsConfig = &tls.Config{
			RootCAs:            x509.NewCertPool(),
			ServerName:         *name,
			NextProtos:         []string{"dot"},
			ClientSessionCache: tls.NewLRUClientSessionCache(1),
		}
		tlsConfig.RootCAs.AppendCertsFromPEM(must(os.ReadFile(*ca)))
		if *certificate != "" {
			tlsConfig.Certificates = []tls.Certificate{must(tls.LoadX509KeyPair(*certificate, *key))}
		}
	}
	resolver := &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var dialer net.Dialer
			if tlsConfig == nil {
				return dialer.DialContext(ctx, network, server)
			}
			// The resolver treats any connection that is not a net.PacketConn as a stream.
			plain, err := dialer.DialContext(ctx, "tcp", server)
			if err != nil {
				return nil, err
			}
			conn := tls.Client(plain, tlsConfig)
			if err := conn.HandshakeContext(ctx); err != nil {
				plain.Close()
				return nil, err
			}
			state := conn.ConnectionState()
			result.Connections++
			if state.DidResume {
				result.Resumed++
			}
			result.Version, result.Protocol = tls.VersionName(state.Version), state.NegotiatedProtocol
			return conn, nil
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

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
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
	case "txt":
		return resolver.LookupTXT(ctx, name)
	}
	panic("unknown kind of question: " + question)
}
