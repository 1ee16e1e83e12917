package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/klauspost/compress/gzhttp"

	"github.com/tailrace-streams/tailrace/wire"
)

// compressor negotiates Accept-Encoding and compresses. Only whole answers of at least wire.CompressMin bytes come
// here: errors go out plain, because a client may look at the first chunk of bytes only, and a stream of events would
// wait for the compressor.
var compressor = func() func(http.Handler) http.HandlerFunc {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(wire.CompressMin), gzhttp.EnableZstd(true), gzhttp.PreferZstd(true),
		gzhttp.ContentTypes([]string{wire.MediaJSON, wire.MediaProto, "text/plain"}))
	if err != nil {
		panic("api: options of the compressor: " + err.Error()) // they are constants
	}
	return wrap
}()

// bodyKey is the context key of the body that is on its way through the compressor.
type bodyKey struct{}

type plainBody struct {
	status int
	bytes  []byte
}

// compressedBody is the one handler behind the compressor, so that no answer has to build it anew.
var compressedBody = compressor(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	b := r.Context().Value(bodyKey{}).(plainBody)
	w.WriteHeader(b.status)
	_, _ = w.Write(b.bytes) // a client that is gone has no use for the error
}))

// compressed answers with a body in the encoding that the client prefers.
func compressed(x *exchange, r *http.Request, status int, body []byte) {
	if r.Header.Get("Accept-Encoding") == "" {
		x.Header().Add("Vary", "Accept-Encoding")
		x.Header().Set("Content-Length", strconv.Itoa(len(body)))
		x.WriteHeader(status)
		_, _ = x.Write(body)
		return
	}
	compressedBody(x, r.WithContext(context.WithValue(r.Context(), bodyKey{}, plainBody{status, body})))
}
