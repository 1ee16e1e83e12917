package api

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/tailrace-streams/tailrace/wire"
)

// This file has the endpoints of the S2 API that are not served. A request that would be refused for its shape is
// refused the same way already; everything else is `not_implemented`, which clients take for "not on this server".

func notImplemented(what string) error {
	return wire.Errorf(wire.CodeNotImplemented, "%s are not served here", what)
}

func (h *handler) accountMetrics(_ *exchange, r *http.Request) error {
	return metricsOf(r, "active-basins", "account-ops")
}

func (h *handler) basinMetrics(_ *exchange, r *http.Request) error {
	if _, err := basinInPath(r); err != nil {
		return err
	}
	return metricsOf(r, "storage", "append-ops", "read-ops", "read-throughput", "append-throughput", "basin-ops")
}

func (h *handler) streamMetrics(_ *exchange, r *http.Request) error {
	if _, err := basinInPath(r); err != nil {
		return err
	}
	if err := wire.CheckStreamName(r.PathValue("stream"), wire.CodeBadPath); err != nil {
		return err
	}
	return metricsOf(r, "storage")
}

// metricsOf checks the query of a metrics endpoint (s2-api 22).
func metricsOf(r *http.Request, sets ...string) error {
	q, err := wire.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	if !slices.Contains(sets, q.Get("set")) {
		return wire.Errorf(wire.CodeBadQuery, "set is missing or is no set of these metrics")
	}
	for _, name := range []string{"start", "end"} {
		if err := checkSeconds(q, name); err != nil {
			return err
		}
	}
	if q.Has("interval") && !slices.Contains([]string{"minute", "hour", "day"}, q.Get("interval")) {
		return wire.Errorf(wire.CodeBadQuery, "interval is minute, hour or day")
	}
	return notImplemented("metrics")
}

func checkSeconds(q url.Values, name string) error {
	if !q.Has(name) {
		return nil
	}
	if _, err := strconv.ParseUint(q.Get(name), 10, 32); err != nil {
		return wire.Errorf(wire.CodeBadQuery, "%s is a time in seconds since the Unix epoch", name)
	}
	return nil
}
