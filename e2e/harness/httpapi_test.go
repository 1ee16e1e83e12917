package harness

import "testing"

func TestRoutesOfABasin(t *testing.T) {
	t.Parallel()
	for request, want := range map[string][2]string{ // the route, and the stream or the rest
		"POST /v1/streams/a/records":     {"POST /v1/streams/{stream}/records", "a"},
		"GET /v1/streams/a":              {"GET /v1/streams/{stream}", "a"},
		"GET /v1/streams/a/records/tail": {"GET /v1/streams/{stream}/records/tail", "a"},
		"GET /v1/streams/a/b/records":    {"GET /v1/streams/{proxy+}", "a/b/records"},
		"POST /v1/streams/a/b/records":   {"POST /v1/streams/{proxy+}", "a/b/records"},
		"OPTIONS /v1/streams/a/records":  {"ANY /v1/streams/{proxy+}", "a/records"},
		"POST /v1/streams":               {"ANY /v1/streams", ""},
		"GET /ping":                      {"GET /ping", ""},
		"GET /v1/streams/":               {},
		"GET /v1/basins":                 {},
		"POST /ping":                     {},
		"GET /metrics":                   {},
	} {
		var method, path string
		for i := range request {
			if request[i] == ' ' {
				method, path = request[:i], request[i+1:]
				break
			}
		}
		route, parameters, ok := match(method, path)
		if ok != (want[0] != "") || route != want[0] || parameters["stream"]+parameters["proxy"] != want[1] {
			t.Errorf("%s: %q %v, want %q", request, route, parameters, want)
		}
	}
}
