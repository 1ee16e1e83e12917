package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tailrace-streams/tailrace/tenancy"
	"github.com/tailrace-streams/tailrace/wire"
)

// endpoint answers a request, or returns why it did not. It may return an error only before it has begun to answer;
// what goes wrong later is its own to tell.
type endpoint func(x *exchange, r *http.Request) error

// route is an endpoint and what it asks of whoever calls it.
type route struct {
	permit permit
	serve  endpoint
}

// methods are the routes of one path.
type methods map[string]route

// routes lists every path of the API with the operations that it needs: the one place that says so. A name in a path is
// one percent-encoded segment, which is what a wildcard of a ServeMux pattern matches. A PUT may create and may change, so
// it needs both.
func (h *handler) routes() map[string]methods {
	ensureBasin := by(tenancy.CreateBasin, tenancy.ReconfigureBasin)
	ensureStream := by(tenancy.CreateStream, tenancy.ReconfigureStream)
	return map[string]methods{
		"/v1/basins": {"GET": {by(tenancy.ListBasins), h.listBasins}, "POST": {named(tenancy.CreateBasin), h.createBasin}},
		"/v1/basins/{basin}": {
			"GET": {by(tenancy.GetBasinConfig), h.getBasin}, "PUT": {ensureBasin, h.ensureBasin},
			"PATCH": {by(tenancy.ReconfigureBasin), h.reconfigureBasin}, "DELETE": {by(tenancy.DeleteBasin), h.deleteBasin},
		},

		"/v1/streams": {"GET": {by(tenancy.ListStreams), h.listStreams}, "POST": {named(tenancy.CreateStream), h.createStream}},
		"/v1/streams/{stream}": {
			"GET": {by(tenancy.GetStreamConfig), h.getStream}, "PUT": {ensureStream, h.ensureStream},
			"PATCH": {by(tenancy.ReconfigureStream), h.reconfigureStream}, "DELETE": {by(tenancy.DeleteStream), h.deleteStream},
		},

		"/v1/streams/{stream}/records": {
			"GET": {by(tenancy.ReadRecords), h.read}, "POST": {by(tenancy.AppendRecords), h.append},
		},
		"/v1/streams/{stream}/records/tail": {"GET": {by(tenancy.CheckTail), h.checkTail}},
		"/v1/streams/{stream}/fence":        {"GET": {by(tenancy.CheckTail), h.getFence}, "PUT": {by(tenancy.Fence), h.putFence}},

		"/v1/access-tokens": {
			"GET": {by(tenancy.ListAccessTokens), h.listTokens}, "POST": {named(tenancy.IssueAccessToken), h.issueToken},
		},
		"/v1/access-tokens/{id}": {"DELETE": {by(tenancy.RevokeAccessToken), h.revokeToken}},
		"/v1/locations":          {"GET": {by(tenancy.ListLocations), h.listLocations}},
		"/v1/locations/default": {
			"GET": {by(tenancy.GetDefaultLocation), h.getLocation}, "PUT": {by(tenancy.SetDefaultLocation), h.setLocation},
		},
		"/v1/metrics":                  {"GET": {by(tenancy.AccountMetrics), h.accountMetrics}},
		"/v1/metrics/{basin}":          {"GET": {by(tenancy.BasinMetrics), h.basinMetrics}},
		"/v1/metrics/{basin}/{stream}": {"GET": {by(tenancy.StreamMetrics), h.streamMetrics}},

		"/health":  {"GET": {public, h.health}},
		"/ping":    {"GET": {public, h.health}},
		"/ready":   {"GET": {public, h.readyz}},
		"/metrics": {"GET": {operator, h.prometheus}},
	}
}

// router sends a request to the endpoint of its path and method.
type router struct {
	mux       *http.ServeMux
	admit     func(x *exchange, r *http.Request) (*http.Request, error)
	authorize func(x *exchange, r *http.Request, p permit) error
	refuse    func(x *exchange, r *http.Request, err error)
	fail      func(x *exchange, r *http.Request, err error)
}

func (h *handler) router() *router {
	rt := &router{mux: http.NewServeMux(), admit: h.admit, authorize: h.authorize, refuse: h.refuseUnread, fail: h.fail}
	for path, m := range h.routes() {
		rt.mux.Handle(path, rt.path(path, m))
		for _, one := range m {
			h.public[path] = h.public[path] || one.permit.public
		}
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
	if m["GET"].serve != nil {
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
		one := m[method]
		if one.serve == nil {
			x.Header().Set("Allow", allowed)
			refuse(x, http.StatusMethodNotAllowed)
			return
		}
		x.route = labels[r.Method]
		r, err := rt.admit(x, r)
		if err == nil {
			err = rt.authorize(x, r, one.permit)
		}
		if err != nil {
			rt.refuse(x, r, err)
			return
		}
		if err := one.serve(x, r); err != nil {
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
