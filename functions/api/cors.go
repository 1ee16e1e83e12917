package api

import "net/http"

// exposed are the response headers that a web page may read.
const exposed = "S2-Provision-Result, Retry-After, Retry-After-Ms, Tailrace-Applied, Tailrace-Tail, Tailrace-Revision, Tailrace-Age-Ms, X-Request-Id"

// cors lets every web page call the API, with credentials: what it asks for is mirrored. It reports whether the
// request was a preflight, which is answered.
func cors(x *exchange, r *http.Request) bool {
	h := x.Header()
	preflight := r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
	h.Add("Vary", "Origin")
	if origin := r.Header.Get("Origin"); origin != "" {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Credentials", "true")
		if !preflight {
			h.Set("Access-Control-Expose-Headers", exposed)
		}
	}
	if !preflight {
		return false
	}
	h.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
	h.Set("Access-Control-Allow-Methods", r.Header.Get("Access-Control-Request-Method"))
	if headers := r.Header.Get("Access-Control-Request-Headers"); headers != "" {
		h.Set("Access-Control-Allow-Headers", headers)
	}
	h.Set("Access-Control-Max-Age", "600")
	x.empty(http.StatusNoContent)
	return true
}
