package api

import (
	"net/http"

	"github.com/tailrace-streams/tailrace/functions/audit"
	"github.com/tailrace-streams/tailrace/wire"
)

// A deployment is one location, which is therefore everybody's default: setting it to itself is all that can be asked.

func (h *handler) location() wire.LocationInfo { return wire.LocationInfo{Name: h.o.Location} }

func (h *handler) listLocations(x *exchange, r *http.Request) error {
	return x.json(r, http.StatusOK, []wire.LocationInfo{h.location()})
}

func (h *handler) getLocation(x *exchange, r *http.Request) error {
	return x.json(r, http.StatusOK, h.location())
}

func (h *handler) setLocation(x *exchange, r *http.Request) error {
	body, err := h.readJSON(x, r)
	if err != nil {
		return err
	}
	name, err := wire.DecodeLocationName(body)
	if err != nil {
		return err
	}
	if name != h.o.Location {
		return wire.Errorf(wire.CodeInvalid, "location: %q is not one of this server's, which is %q", name, h.o.Location)
	}
	ctx, cancel := h.unary(r)
	defer cancel()
	if err := h.audit(ctx, x, "set-default-location", audit.Entry{Location: name}); err != nil {
		return err
	}
	return x.json(r, http.StatusOK, h.location())
}
