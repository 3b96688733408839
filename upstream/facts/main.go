// Command facts writes down what Atoll needs to know of the built-in Kubernetes types and resources, and answers
// how Go itself decodes and encodes an object, so that Atoll's own answer can be compared with it.
//
//	facts types      every kind, struct, field and named scalar of the served group versions
//	facts resources  the resource rows of a default API server
//	facts roundtrip  one JSON request per line on stdin, one JSON answer per line on stdout
//	facts patch      the same with strategic merge patches
//
// The modules in go.mod decide which Kubernetes version the facts are about.
package main

import (
	"bufio"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: facts types|resources|roundtrip|patch")
		os.Exit(2)
	}
	out := bufio.NewWriter(os.Stdout)
	var err error
	switch os.Args[1] {
	case "types":
		err = writeTypes(out)
	case "resources":
		err = writeResources(out)
	case "roundtrip":
		err = roundtrip(os.Stdin, out)
	case "patch":
		err = patch(os.Stdin, out)
	default:
		err = fmt.Errorf("unknown mode %q", os.Args[1])
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "facts:", err)
		os.Exit(1)
	}
}
