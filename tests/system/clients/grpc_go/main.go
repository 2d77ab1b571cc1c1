// Client and server of gRPC for the tests.
//
//	grpc_go serve CLUSTER             serves the health service at both ports
//	grpc_go call TARGET…              calls it at each target, and prints the results as JSON, one line per round
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sort"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// result is what happened to the calls of a round.
type result struct {
	// Pods are the pods that replied, each one once.
	Pods []string `json:"pods"`
	// Failed is the number of calls without a reply.
	Failed int `json:"failed"`
}

// dial opens a channel as a user would: `dial("dns:///web.prod.global:50051")`.
func dial(target string) (*grpc.ClientConn, error) {
	return grpc.NewClient(target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// The default, pick_first, uses one address.
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
		// Detects a dead gateway. Without it, a connection seems alive until TCP gives up.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 10 * time.Second, Timeout: 2 * time.Second, PermitWithoutStream: true,
		}),
	)
}

// options returns the settings of a server. A client resolves the name again when a connection ends, so the age decides
// how long it takes to see a new endpoint.
func options(age time.Duration) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: age, MaxConnectionAgeGrace: time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}
}

func main() {
	switch os.Args[1] {
	case "--version":
		fmt.Println(grpc.Version)
	case "serve":
		go serve(os.Args[2], ":50051", 0)
		serve(os.Args[2], ":50052", 10*time.Second)
	case "call":
		call(os.Args[2:])
	}
}

// serve runs a server whose replies name the cluster and the address of the pod.
func serve(cluster, address string, age time.Duration) {
	name := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		client, _ := peer.FromContext(ctx)
		pod, _, _ := net.SplitHostPort(client.LocalAddr.String())
		if err := grpc.SetHeader(ctx, metadata.Pairs("pod", cluster+"/"+pod)); err != nil {
			return nil, err
		}
		return handler(ctx, request)
	}
	server := grpc.NewServer(append(options(age), grpc.UnaryInterceptor(name))...)
	healthpb.RegisterHealthServer(server, health.NewServer())
	// Pod addresses are IPv4.
	listener := must(net.Listen("tcp4", address))
	panic(server.Serve(listener))
}

func call(targets []string) {
	channels := make([]healthpb.HealthClient, len(targets))
	for i, target := range targets {
		channels[i] = healthpb.NewHealthClient(must(dial(target)))
	}
	results := make([]result, len(targets))
	for {
		var group sync.WaitGroup
		for i, channel := range channels {
			group.Add(1)
			go func() {
				defer group.Done()
				// Enough calls for one more server than in the round before.
				results[i] = round(channel, 2*len(results[i].Pods)+4)
			}()
		}
		group.Wait()
		if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
			panic(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// round makes concurrent calls.
func round(channel healthpb.HealthClient, calls int) result {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var group sync.WaitGroup
	var lock sync.Mutex
	found, failed := map[string]bool{}, 0
	for range calls {
		group.Add(1)
		go func() {
			defer group.Done()
			var header metadata.MD
			_, err := channel.Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Header(&header))
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				failed++
				return
			}
			for _, pod := range header.Get("pod") {
				found[pod] = true
			}
		}()
	}
	group.Wait()
	pods := []string{}
	for pod := range found {
		pods = append(pods, pod)
	}
	sort.Strings(pods)
	return result{pods, failed}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
