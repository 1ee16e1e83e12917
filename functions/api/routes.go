package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tailrace-streams/tailrace/wire"
)

// endpoint answers a request, or returns why it did not. It may return an error only before it has begun to answer;
// what goes wrong later is its own to tell.
type endpoint func(x *exchange, r *http.Request) error

// methods are the endpoints of one path.
type methods map[string]endpoint

// routes lists every path of the API. A name in a path is one percent-encoded segment, which is what a wildcard of a
// ServeMux pattern matches.
func (h *handler) routes() map[string]methods {
	return map[string]methods{
		"/v1/basins":         {"GET": h.listBasins, "POST": h.createBasin},
		"/v1/basins/{basin}": {"GET": h.getBasin, "PUT": h.ensureBasin, "PATCH": h.reconfigureBasin, "DELETE": h.deleteBasin},

		"/v1/streams":          {"GET": h.listStreams, "POST": h.createStream},
		"/v1/streams/{stream}": {"GET": h.getStream, "PUT": h.ensureStream, "PATCH": h.reconfigureStream, "DELETE": h.deleteStream},

		"/v1/streams/{stream}/records":      {"GET": h.read, "POST": h.append},
		"/v1/streams/{stream}/records/tail": {"GET": h.checkTail},
		"/v1/streams/{stream}/fence":        {"GET": h.getFence, "PUT": h.putFence},

		"/v1/access-tokens":            {"GET": h.listTokens, "POST": h.issueToken},
		"/v1/access-tokens/{id}":       {"DELETE": h.revokeToken},
		"/v1/locations":                {"GET": h.listLocations},
		"/v1/locations/default":        {"GET": h.getLocation, "PUT": h.setLocation},
		"/v1/metrics":                  {"GET": h.accountMetrics},
		"/v1/metrics/{basin}":          {"GET": h.basinMetrics},
		"/v1/metrics/{basin}/{stream}": {"GET": h.streamMetrics},

		"/health":  {"GET": h.health},
		"/ping":    {"GET": h.health},
		"/ready":   {"GET": h.readyz},
		"/metrics": {"GET": h.prometheus},
	}
}

// router sends a request to the endpoint of its path and method.
type router struct {
	mux   *http.ServeMux
	admit func(r *http.Request) (*http.Request, error)
	fail  func(x *exchange, r *http.Request, err error)
}

func (h *handler) router() *router {
	rt := &router{mux: http.NewServeMux(), admit: h.admit, fail: h.fail}
	for path, m := range h.routes() {
		rt.mux.Handle(path, rt.path(path, m))
	}
	rt.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w.(*exchange), http.StatusNotFound) })
	return rt
}

// ServeHTTP keeps from the mux what it would answer with a redirect, or with a body that S2 does not have: paths with
// empty or dot segments, and unknown ones.
func (rt *router) ServeHTTP(x *exchange, r *http.Request) {
	path := r.URL.EscapedPath()
	if hasSegment(path, ".", "..") {
		rt.fail(x, r, wire.Errorf(wire.CodeBadPath, "a segment of the path is a dot or two"))
		return
	}
	if !strings.HasPrefix(path, "/") || strings.Contains(path, "//") {
		refuse(x, http.StatusNotFound)
		return
	}
	rt.mux.ServeHTTP(x, r)
}

// refuse answers for what is no endpoint, without a body, as S2 does.
func refuse(x *exchange, status int) {
	x.Header().Set(wire.HeaderApplied, string(wire.AppliedNo))
	x.empty(status)
}

// hasSegment reports whether one of the escaped path's segments is one of these, literally.
func hasSegment(path string, segments ...string) bool {
	if !strings.Contains(path, "/.") {
		return false
	}
	return slices.ContainsFunc(strings.Split(path, "/"), func(s string) bool { return slices.Contains(segments, s) })
}

// path serves the methods of one path: HEAD wherever there is GET, and 405 for what it has not.
func (rt *router) path(path string, m methods) http.Handler {
	var allow []string
	for method := range m {
		allow = append(allow, method)
	}
	if m["GET"] != nil {
		allow = append(allow, "HEAD")
	}
	slices.Sort(allow)
	allowed := strings.Join(allow, ", ")
	labels := make(map[string]string, len(allow))
	for _, method := range allow {
		labels[method] = method + " " + path
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := w.(*exchange)
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		serve := m[method]
		if serve == nil {
			x.Header().Set("Allow", allowed)
			refuse(x, http.StatusMethodNotAllowed)
			return
		}
		x.route = labels[r.Method]
		r, err := rt.admit(r)
		if err == nil {
			err = serve(x, r)
		}
		if err != nil {
			rt.fail(x, r, err)
		}
	})
}

// basinInPath is the name of a basin as a segment of the path.
func basinInPath(r *http.Request) (string, error) {
	name := r.PathValue("basin")
	return name, wire.CheckBasinName(name, wire.CodeBadPath)
}

// streamOf names the stream that a request is about: its basin first, then its name.
func streamOf(r *http.Request) (basin, stream string, err error) {
	if basin, err = wire.BasinOf(r.Header); err != nil {
		return "", "", err
	}
	stream = r.PathValue("stream")
	return basin, stream, wire.CheckStreamName(stream, wire.CodeBadPath)
}
