// Sends requests to a name, as Go programs do. Each line of its input is a number of requests. It prints a line after them.
//
// Usage: connect dial|srv|keep
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
)

func main() {
	way := os.Args[1]
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: way != "keep"}}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		for range must(strconv.Atoi(lines.Text())) {
			host := "web.prod.global:8080"
			if way == "srv" {
				host = target()
			}
			response := must(client.Get("http://" + host + "/"))
			must(io.Copy(io.Discard, response.Body))
			response.Body.Close()
		}
		fmt.Println("done")
	}
}

// target returns the first target. LookupSRV has sorted them by priority, and shuffled them by weight.
func target() string {
	_, targets, err := net.LookupSRV("http", "tcp", "web.prod.global")
	first := must(targets, err)[0]
	return fmt.Sprintf("%s:%d", strings.TrimSuffix(first.Target, "."), first.Port)
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
