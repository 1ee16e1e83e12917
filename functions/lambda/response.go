package lambda

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailrace-streams/tailrace/wire"
)

// The sizes that the platform takes for an answer which is not streamed, less what headers and the form around them may
// need: 6 MB from a function, 1 MB to a load balancer.
const (
	answerMax   = 6<<20 - answerFrame
	balancerMax = 1<<20 - answerFrame
	answerFrame = 64 << 10
)

// recorder is the http.ResponseWriter of an answer that goes out in one piece. It implements api.Bounded.
type recorder struct {
	header http.Header
	sent   http.Header // as it was when the answer began
	status int
	body   bytes.Buffer
	most   int
	// size is what a body takes as the platform carries it.
	size func(media string, body []byte) int
}

func newRecorder(k kind) *recorder {
	w := &recorder{header: http.Header{}, most: answerMax, size: quotedSize}
	switch k {
	case balancer:
		w.most = balancerMax
	case direct:
		w.size = plainSize
	}
	return w
}

// Header implements http.ResponseWriter, as do WriteHeader and Write.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader takes the first status; informational ones have no place in an event.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status, w.sent = status, w.header.Clone()
	}
}

func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// FlushError implements what http.ResponseController flushes: nothing leaves before the end.
func (w *recorder) FlushError() error {
	w.WriteHeader(http.StatusOK)
	return nil
}

// Fits implements api.Bounded. What was written before counts as well.
func (w *recorder) Fits(media string, body []byte) bool {
	return w.size(media, w.body.Bytes())+w.size(media, body) <= w.most
}

// isText reports whether a body goes as it is, and not in base64. A compressed one does not, whatever its type.
func isText(header http.Header, body []byte) bool {
	return header.Get("Content-Encoding") == "" && textual(header.Get("Content-Type")) && utf8.Valid(body)
}

func textual(media string) bool {
	media, _, _ = strings.Cut(media, ";")
	return media == wire.MediaJSON || strings.HasPrefix(media, "text/")
}

// quotedSize is the size of a body as a JSON string: escaped, or in base64.
func quotedSize(media string, body []byte) int {
	if !textual(media) || !utf8.Valid(body) {
		return base64.StdEncoding.EncodedLen(len(body))
	}
	n := len(body)
	for _, c := range body {
		switch {
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
			n++
		case c < ' ':
			n += len(`\u0000`) - 1
		}
	}
	// Two characters of JavaScript's that JSON encoders escape: three bytes become six.
	return n + 3*(bytes.Count(body, []byte("\u2028"))+bytes.Count(body, []byte("\u2029")))
}

// plainSize is the size of a body that is JSON within JSON.
func plainSize(media string, body []byte) int {
	if media == wire.MediaJSON {
		return len(body)
	}
	return quotedSize(media, body)
}

// httpAnswer is what API Gateway, function URLs and load balancers take: they agree on the names.
type httpAnswer struct {
	StatusCode        int                 `json:"statusCode"`
	StatusDescription string              `json:"statusDescription,omitempty"` // for load balancers
	Headers           map[string]string   `json:"headers,omitempty"`
	MultiValueHeaders map[string][]string `json:"multiValueHeaders,omitempty"`
	Cookies           []string            `json:"cookies,omitempty"`
	Body              string              `json:"body"`
	IsBase64Encoded   bool                `json:"isBase64Encoded"`
}

// answer turns what was recorded into the JSON of an answer.
func (w *recorder) answer(k kind) (json.RawMessage, error) {
	w.WriteHeader(http.StatusOK)
	a := httpAnswer{StatusCode: w.status}
	switch k {
	case gatewayV2, functionURL:
		a.Headers, a.Cookies = joinHeaders(w.sent)
	case balancer:
		a.StatusDescription = fmt.Sprintf("%d %s", w.status, http.StatusText(w.status))
		// A load balancer looks at one of the two, as it is set up.
		a.Headers, _ = joinHeaders(w.sent)
		a.MultiValueHeaders = w.sent
	default:
		a.MultiValueHeaders = w.sent
	}
	if isText(w.sent, w.body.Bytes()) {
		a.Body = w.body.String()
	} else if w.body.Len() > 0 {
		a.Body, a.IsBase64Encoded = base64.StdEncoding.EncodeToString(w.body.Bytes()), true
	}
	return encode(a)
}

// joinHeaders joins repeated headers by commas, and keeps cookies apart, which cannot be joined.
func joinHeaders(h http.Header) (joined map[string]string, cookies []string) {
	joined = make(map[string]string, len(h))
	for name, values := range h {
		if name == "Set-Cookie" {
			cookies = slices.Clone(values)
			continue
		}
		joined[name] = strings.Join(values, ",")
	}
	return joined, cookies
}

// encode is json.Marshal without the escapes that are for HTML.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
