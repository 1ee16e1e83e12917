package api

import (
	"context"
	"net/http"

	"github.com/tailrace-streams/tailrace/functions/audit"
	"github.com/tailrace-streams/tailrace/tenancy"
	"github.com/tailrace-streams/tailrace/wire"
)

func (h *handler) listStreams(x *exchange, r *http.Request) error {
	basin, err := wire.BasinOf(r.Header)
	if err != nil {
		return err
	}
	q, err := parseList(r, wire.StreamNames)
	if err != nil {
		return err
	}
	t, err := h.termsOf(x, r, q.MinRevision)
	if err != nil {
		return err
	}
	x.fullQuery(&q)
	view := viewOf(&q, x.principal.Scope.Streams)
	has, named := h.hasBasin(x, &t), ""
	if t.Min != nil && t.Min.Stream != "" {
		has, named = h.hasName(x, &t, view), t.Min.Stream
	}
	if err := t.about(basin, named); err != nil {
		return err
	}
	ctx, cancel := h.waiting(x, r, &t)
	defer cancel()
	key := pageKey{kind: wire.StreamNames, listing: true, prefix: q.Prefix, startAfter: q.StartAfter, limit: q.Limit}
	got, err := h.get(ctx, x, basin, key, &t, func(ctx context.Context) (p page, err error) {
		p.streams, err = h.o.Directory.ListStreams(ctx, basin, q.Prefix, q.StartAfter, q.Limit)
		p.basin = p.streams.Basin
		return p, err
	}, has)
	if err != nil {
		return err
	}
	h.shows(x, &t, basinRevision(&got.basin), got.asOf)
	answer := wire.ListStreamsResponse{HasMore: view.more(got.streams.HasMore)}
	for _, s := range got.streams.Streams {
		if view.shows(s.Name) {
			answer.Streams = append(answer.Streams, x.wireStream(s))
		}
	}
	return x.json(r, http.StatusOK, answer)
}

func (h *handler) createStream(x *exchange, r *http.Request) error {
	basin, err := wire.BasinOf(r.Header)
	if err != nil {
		return err
	}
	token, err := requestToken(r)
	if err != nil {
		return err
	}
	body, err := h.readJSON(x, r)
	if err != nil {
		return err
	}
	request, err := wire.DecodeCreateStream(body)
	if err != nil {
		return err
	}
	if err := request.Config.Validate(); err != nil {
		return err
	}
	name, err := x.fullName(request.Stream, wire.CodeBadJSON)
	if err == nil {
		err = x.may(tenancy.CreateStream, tenancy.Resource{Basin: basin, Stream: name})
	}
	if err != nil {
		return err
	}
	ctx, cancel := h.unary(r)
	defer cancel()
	if err := h.audit(ctx, x, "create-stream", audit.Entry{Basin: basin, Stream: name}); err != nil {
		return err
	}
	info, outcome, err := h.o.Directory.CreateStream(ctx, basin, name, settings(request.Config), token)
	if err != nil {
		return err
	}
	h.pages.changed(basin, false)
	h.name(x, streamRevision(basin, &info))
	return provisioned(x, r, http.StatusCreated, outcome, x.wireStream(info))
}

func (h *handler) getStream(x *exchange, r *http.Request) error {
	basin, stream, err := streamOf(r)
	if err != nil {
		return err
	}
	t, err := h.termsOfPath(x, r)
	if err != nil {
		return err
	}
	if err := t.about(basin, stream); err != nil {
		return err
	}
	ctx, cancel := h.waiting(x, r, &t)
	defer cancel()
	if t.Asked {
		v, revision, err := h.view(ctx, x, basin, stream, tenancy.Use{}, &t)
		if err != nil {
			return err
		}
		h.shows(x, &t, revision, v.AsOf)
		return x.json(r, http.StatusOK, wireStreamConfig(v.Head.Config))
	}
	_, config, err := h.o.Directory.GetStream(ctx, basin, stream)
	if err != nil {
		return err
	}
	return x.json(r, http.StatusOK, wireStreamConfig(config))
}

func (h *handler) ensureStream(x *exchange, r *http.Request) error {
	basin, stream, err := streamOf(r)
	if err != nil {
		return err
	}
	var config *wire.StreamConfig
	body, err := h.readOptionalJSON(x, r)
	if err == nil && body != nil {
		config, err = decodeStreamConfig(body)
	}
	if err != nil {
		return err
	}
	if err := config.Validate(); err != nil {
		return err
	}
	ctx, cancel := h.unary(r)
	defer cancel()
	if err := h.audit(ctx, x, "ensure-stream", audit.Entry{Basin: basin, Stream: stream}); err != nil {
		return err
	}
	info, outcome, err := h.o.Directory.EnsureStream(ctx, basin, stream, settings(config))
	if err != nil {
		return err
	}
	h.o.Streams.Forget(info.Ref)
	h.pages.changed(basin, false)
	h.name(x, streamRevision(basin, &info))
	return provisioned(x, r, ensuredStatus(outcome), outcome, x.wireStream(info))
}

func decodeStreamConfig(body []byte) (*wire.StreamConfig, error) {
	config, err := wire.DecodeStreamConfig(body)
	return &config, err
}

func (h *handler) reconfigureStream(x *exchange, r *http.Request) error {
	basin, stream, err := streamOf(r)
	if err != nil {
		return err
	}
	body, err := h.readJSON(x, r)
	if err != nil {
		return err
	}
	change, err := wire.DecodeStreamReconfiguration(body)
	if err != nil {
		return err
	}
	if err := change.Validate(); err != nil {
		return err
	}
	ctx, cancel := h.unary(r)
	defer cancel()
	if err := h.audit(ctx, x, "reconfigure-stream", audit.Entry{Basin: basin, Stream: stream}); err != nil {
		return err
	}
	info, config, err := h.o.Directory.ReconfigureStream(ctx, basin, stream, patchOf(change))
	if err != nil {
		return err
	}
	h.o.Streams.Forget(info.Ref)
	h.pages.changed(basin, false)
	h.name(x, streamRevision(basin, &info))
	return x.json(r, http.StatusOK, wireStreamConfig(config))
}

// deleteStream begins a deletion. Followers here are told at once; elsewhere they find out by themselves.
func (h *handler) deleteStream(x *exchange, r *http.Request) error {
	basin, stream, err := streamOf(r)
	if err != nil {
		return err
	}
	ctx, cancel := h.unary(r)
	defer cancel()
	if err := h.audit(ctx, x, "delete-stream", audit.Entry{Basin: basin, Stream: stream}); err != nil {
		return err
	}
	info, err := h.o.Directory.DeleteStream(ctx, basin, stream)
	if err != nil {
		return err
	}
	h.o.Streams.Forget(info.Ref)
	h.o.Streams.Poke(info.Ref)
	h.pages.changed(basin, false)
	h.name(x, streamRevision(basin, &info))
	x.empty(http.StatusAccepted)
	return nil
}

// wireStream describes a stream by the name that the client has for it.
func (x *exchange) wireStream(s tenancy.StreamInfo) wire.StreamInfo {
	info := wire.StreamInfo{Name: x.principal.Shown(s.Name), CreatedAt: wire.Time{Time: s.CreatedAt}, Cipher: cipher(s.Cipher)}
	if !s.DeletedAt.IsZero() {
		info.DeletedAt = &wire.Time{Time: s.DeletedAt}
	}
	return info
}
