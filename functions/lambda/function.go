package lambda

import (
	"net/http"
	"strings"
)

// Name is one of the functions that a deployment has.
type Name string

// The functions. Each serves its own part of the API, so that each needs only its own permissions, memory and time.
const (
	Append   Name = "append"
	Read     Name = "read"
	Control  Name = "control"
	Maintain Name = "maintain"
)

// probes are the paths that every function answers: of its own process.
var probes = []string{"/health", "/ping", "/ready", metricsPath}

const metricsPath = "/metrics"

// owner says which function serves a request, by its method and escaped path. Preflights are everybody's, as are probes:
// there the owner is empty.
func owner(method, path string) Name {
	if method == http.MethodOptions {
		return ""
	}
	for _, probe := range probes {
		if path == probe {
			return ""
		}
	}
	rest, ok := strings.CutPrefix(path, "/v1/streams/")
	if !ok {
		return Control
	}
	_, below, ok := strings.Cut(rest, "/")
	switch {
	case !ok:
		return Control
	case method == http.MethodGet || method == http.MethodHead:
		return Read
	case below == "records", below == "fence":
		return Append
	}
	return Control
}
