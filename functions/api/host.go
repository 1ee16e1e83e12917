package api

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/tailrace-streams/tailrace/tenancy"
	"github.com/tailrace-streams/tailrace/wire"
)

// admit judges what of a request comes before its meaning: headers that have one value, and the host it is sent to. The
// request it returns says in s2-basin which basin that host stands for, so that nothing behind it needs to know of hosts.
func (h *handler) admit(x *exchange, r *http.Request) (*http.Request, error) {
	r, err := h.addressed(r)
	if err == nil {
		r = asSystem(x, r)
	}
	return r, err
}

// asSystem lets the operator through to the service's own basin, which is in nobody's account. Only where s2-basin is an
// address does it count: elsewhere it would have what the operator makes put into that account.
func asSystem(x *exchange, r *http.Request) *http.Request {
	basin := r.PathValue("basin")
	if basin == "" && strings.HasPrefix(r.Pattern, "/v1/streams") {
		basin = strings.TrimSpace(r.Header.Get(wire.HeaderBasin))
	}
	system := x.principal.AsSystem(basin)
	if system == x.principal {
		return r
	}
	x.principal = system
	return r.WithContext(tenancy.WithPrincipal(r.Context(), system))
}

// addressed is a request with one value of each header that has one, and its basin in a header.
func (h *handler) addressed(r *http.Request) (*http.Request, error) {
	if err := wire.CheckSingle(r.Header); err != nil {
		return r, err
	}
	if h.o.Domain == "" || !strings.HasPrefix(r.URL.Path, "/v1/") {
		return r, nil
	}
	if err := checkOneHost(r); err != nil {
		return r, err
	}
	basin, err := basinOfHost(r.Host, h.o.Domain)
	if basin == "" || err != nil {
		return r, err
	}
	if !strings.HasPrefix(r.URL.Path, "/v1/streams") {
		return r, wire.Errorf(wire.CodeBadPath, "the host is that of a basin, which has streams alone; basins, tokens, locations and metrics are at %s",
			h.o.Domain)
	}
	for _, named := range r.Header.Values(wire.HeaderBasin) {
		if strings.TrimSpace(named) != basin {
			return r, wire.Errorf(wire.CodeBadHeader, "s2-basin names another basin than the host, which is that of %s", basin)
		}
	}
	addressed := r.WithContext(r.Context())
	addressed.Header = r.Header.Clone()
	addressed.Header.Set(wire.HeaderBasin, basin)
	return addressed, nil
}

// checkOneHost refuses a request that names two hosts, of which a proxy may have judged one and the basin be chosen by the
// other. HTTP/1.1 lets the target name a host, beside which net/http drops the header Host unseen; HTTP/2 can carry that
// header beside :authority. X-Forwarded-Host and its like are never read.
func checkOneHost(r *http.Request) error {
	if r.RequestURI != "" && !strings.HasPrefix(r.RequestURI, "/") {
		return wire.Errorf(wire.CodeBadHeader, "the request's target names a host; send the path there and the host in the header host")
	}
	for _, second := range r.Header.Values("Host") {
		if plainHost(second) != plainHost(r.Host) {
			return wire.Errorf(wire.CodeBadHeader, "the header host and :authority name two hosts; send one of them")
		}
	}
	return nil
}

// basinOfHost is the basin whose name stands before the domain in a host; empty for the domain itself and for hosts that are
// not below it. What stands there and is no basin's name, or more than one label, is refused.
func basinOfHost(host, domain string) (string, error) {
	label, below := strings.CutSuffix(plainHost(host), "."+domain)
	if !below {
		return "", nil
	}
	if err := wire.CheckBasinName(label, wire.CodeBadHeader); err != nil {
		return "", wire.Errorf(wire.CodeBadHeader, "the host is below %s and names no basin: %s", domain, err.(*wire.Error).Message)
	}
	return label, nil
}

// plainHost is a host in lower case, without its port and without the dot of the root.
func plainHost(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		if _, err := strconv.ParseUint(host[i+1:], 10, 16); err == nil || host[i+1:] == "" {
			host = host[:i]
		}
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}
