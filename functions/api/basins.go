package api

import (
	"context"
	"net/http"

	"github.com/tailrace-streams/tailrace/functions/audit"
	"github.com/tailrace-streams/tailrace/tenancy"
	"github.com/tailrace-streams/tailrace/wire"
)

func (h *handler) listBasins(x *exchange, r *http.Request) error {
	q, err := parseList(r, wire.BasinNames)
	if err != nil {
		return err
	}
	t, err := h.termsOf(x, r, q.MinRevision)
	if err != nil {
		return err
	}
	if t.Min != nil && t.Min.Stream != "" {
		return wire.Errorf(t.At, "the revision demanded is of a stream, and says nothing about basins")
	}
	ctx, cancel := h.waiting(x, r, &t)
	defer cancel()
	view := viewOf(&q, x.principal.Scope.Basins)
	key := pageKey{kind: wire.BasinNames, listing: true, prefix: q.Prefix, startAfter: q.StartAfter, limit: q.Limit}
	got, err := h.get(ctx, x, allBasins, key, &t, func(ctx context.Context) (p page, err error) {
		p.basins, err = h.o.Directory.ListBasins(ctx, q.Prefix, q.StartAfter, q.Limit)
		return p, err
	}, h.hasListed(x, &t, view))
	if err != nil {
		return err
	}
	if b := got.listed(t.Min, view); b != nil {
		h.name(x, basinRevision(b))
	}
	h.aged(x, &t, got.asOf)
	answer := wire.ListBasinsResponse{HasMore: view.more(got.basins.HasMore)}
	for _, b := range got.basins.Basins {
		if view.shows(b.Name) {
			answer.Basins = append(answer.Basins, wireBasin(b))
		}
	}
	return x.json(r, http.StatusOK, answer)
}

func parseList(r *http.Request, kind wire.NameKind) (wire.ListQuery, error) {
	values, err := wire.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return wire.ListQuery{}, err
	}
	return wire.ParseListQuery(values, kind)
}

func (h *handler) createBasin(x *exchange, r *http.Request) error {
	token, err := requestToken(r)
	if err != nil {
		return err
	}
	body, err := h.readJSON(x, r)
	if err != nil {
		return err
	}
	request, err := wire.DecodeCreateBasin(body)
	if err != nil {
		return err
	}
	if err := request.Config.Validate(); err != nil {
		return err
	}
	if err := x.may(tenancy.CreateBasin, tenancy.Resource{Basin: request.Basin}); err != nil {
		return err
	}
	ctx, cancel := h.unary(r)
	defer cancel()
	if err := h.audit(ctx, x, "create-basin", audit.Entry{Basin: request.Basin}); err != nil {
		return err
	}
	info, outcome, err := h.o.Directory.CreateBasin(ctx, request.Basin, value(request.Location), basinConfig(request.Config), token)
	if err != nil {
		return err
	}
	h.pages.changed(info.Name, true)
	h.name(x, basinRevision(&info))
	return provisioned(x, r, http.StatusCreated, outcome, wireBasin(info))
}

func (h *handler) getBasin(x *exchange, r *http.Request) error {
	name, err := basinInPath(r)
	if err != nil {
		return err
	}
	t, err := h.termsOfPath(x, r)
	if err != nil {
		return err
	}
	if err := t.about(name, ""); err != nil {
		return err
	}
	ctx, cancel := h.waiting(x, r, &t)
	defer cancel()
	got, err := h.get(ctx, x, name, pageKey{}, &t, func(ctx context.Context) (p page, err error) {
		p.basin, p.config, err = h.o.Directory.GetBasin(ctx, name)
		return p, err
	}, h.hasBasin(x, &t))
	if err != nil {
		return err
	}
	h.shows(x, &t, basinRevision(&got.basin), got.asOf)
	return x.json(r, http.StatusOK, wireBasinConfig(got.config))
}

func (h *handler) ensureBasin(x *exchange, r *http.Request) error {
	name, err := basinInPath(r)
	if err != nil {
		return err
	}
	var request wire.EnsureBasinRequest
	body, err := h.readOptionalJSON(x, r)
	if err == nil && body != nil {
		request, err = wire.DecodeEnsureBasin(body)
	}
	if err != nil {
		return err
	}
	if err := request.Config.Validate(); err != nil {
		return err
	}
	ctx, cancel := h.unary(r)
	defer cancel()
	if err := h.audit(ctx, x, "ensure-basin", audit.Entry{Basin: name}); err != nil {
		return err
	}
	info, outcome, err := h.o.Directory.EnsureBasin(ctx, name, value(request.Location), basinConfig(request.Config))
	if err != nil {
		return err
	}
	h.pages.changed(info.Name, true)
	h.name(x, basinRevision(&info))
	return provisioned(x, r, ensuredStatus(outcome), outcome, wireBasin(info))
}

func (h *handler) reconfigureBasin(x *exchange, r *http.Request) error {
	name, err := basinInPath(r)
	if err != nil {
		return err
	}
	body, err := h.readJSON(x, r)
	if err != nil {
		return err
	}
	change, err := wire.DecodeBasinReconfiguration(body)
	if err != nil {
		return err
	}
	if err := change.Validate(); err != nil {
		return err
	}
	ctx, cancel := h.unary(r)
	defer cancel()
	if err := h.audit(ctx, x, "reconfigure-basin", audit.Entry{Basin: name}); err != nil {
		return err
	}
	info, config, err := h.o.Directory.ReconfigureBasin(ctx, name, basinPatchOf(change))
	if err != nil {
		return err
	}
	h.pages.changed(info.Name, true)
	h.name(x, basinRevision(&info))
	return x.json(r, http.StatusOK, wireBasinConfig(config))
}

func (h *handler) deleteBasin(x *exchange, r *http.Request) error {
	name, err := basinInPath(r)
	if err != nil {
		return err
	}
	ctx, cancel := h.unary(r)
	defer cancel()
	if err := h.audit(ctx, x, "delete-basin", audit.Entry{Basin: name}); err != nil {
		return err
	}
	info, err := h.o.Directory.DeleteBasin(ctx, name)
	if err != nil {
		return err
	}
	h.pages.changed(info.Name, true)
	h.name(x, basinRevision(&info))
	x.empty(http.StatusAccepted)
	return nil
}

// provisioned answers a creation. The header is what clients tell the outcome by.
func provisioned(x *exchange, r *http.Request, status int, outcome tenancy.Outcome, info any) error {
	x.Header().Set(wire.HeaderProvisionResult, string(outcome))
	return x.json(r, status, info)
}

func ensuredStatus(outcome tenancy.Outcome) int {
	if outcome == tenancy.Created {
		return http.StatusCreated
	}
	return http.StatusOK
}

func wireBasin(b tenancy.BasinInfo) wire.BasinInfo {
	info := wire.BasinInfo{Name: b.Name, CreatedAt: wire.Time{Time: b.CreatedAt}}
	if b.Location != "" {
		info.Location = &b.Location
	}
	if !b.DeletedAt.IsZero() {
		info.DeletedAt = &wire.Time{Time: b.DeletedAt}
	}
	return info
}

// requestToken is the idempotency token of a creation; empty for none.
func requestToken(r *http.Request) (string, error) {
	token, err := wire.RequestTokenOf(r.Header)
	return value(token), err
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// readJSON reads a body that has to be there.
func (h *handler) readJSON(x *exchange, r *http.Request) ([]byte, error) {
	if err := wire.RequireJSON(r.Header.Get("Content-Type")); err != nil {
		return nil, err
	}
	return h.readBody(x, r, wire.CodeBadJSON)
}

// readOptionalJSON reads the body of a PUT, nil if there is none. Without a content type it is not looked at.
func (h *handler) readOptionalJSON(x *exchange, r *http.Request) ([]byte, error) {
	media := r.Header.Get("Content-Type")
	if media == "" {
		return nil, nil
	}
	if err := wire.RequireJSON(media); err != nil {
		return nil, err
	}
	body, err := h.readBody(x, r, wire.CodeBadJSON)
	if err != nil {
		return nil, err
	}
	if there, err := wire.OptionalJSON(media, body); err != nil || !there {
		return nil, err
	}
	return body, nil
}
