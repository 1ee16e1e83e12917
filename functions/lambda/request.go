package lambda

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/tailrace-streams/tailrace/wire"
)

// call is an HTTP request as an event described it, whichever the front door.
type call struct {
	method, path, query string // path and query as they are in a request line
	host, remote        string
	header              http.Header
	body                []byte
	// pinned is the basin that the gateway serves and no other; nil where callers name theirs.
	pinned *string
}

// errBody is in the error about a body that is said to be base64 and is not.
var errBody = errors.New("the body of the event is said to be base64, and is not")

// parse reads the event of an HTTP request. Errors match ErrEvent or errBody.
func parse(k kind, event []byte) (*call, error) {
	var c *call
	var body string
	var isBase64 bool
	var err error
	switch k {
	case gatewayV2, functionURL:
		c, body, isBase64, err = parseV2(k, event)
	default:
		c, body, isBase64, err = parseV1(k, event)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEvent, err)
	}
	if c.body = []byte(body); isBase64 {
		if c.body, err = base64.StdEncoding.DecodeString(body); err != nil {
			return c, fmt.Errorf("%w: %w", errBody, err)
		}
	}
	c.host = c.header.Get("Host")
	c.header.Del("Host") // net/http keeps it apart
	return c, nil
}

// parseV2 reads payload format 2.0. Repeated headers come joined by commas, cookies in a list of their own.
func parseV2(k kind, event []byte) (*call, string, bool, error) {
	var e events.APIGatewayV2HTTPRequest
	if err := json.Unmarshal(event, &e); err != nil {
		return nil, "", false, err
	}
	c := &call{
		method: e.RequestContext.HTTP.Method, path: withoutStage(e.RawPath, e.RequestContext.Stage), query: e.RawQueryString,
		remote: e.RequestContext.HTTP.SourceIP, header: http.Header{},
	}
	for name, value := range e.Headers {
		c.add(name, value)
	}
	c.pin(e.StageVariables)
	if len(e.Cookies) > 0 {
		c.header.Set("Cookie", strings.Join(e.Cookies, "; "))
	}
	if k == gatewayV2 {
		c.path = escapePath(c.path, e.PathParameters)
	}
	return c, e.Body, e.IsBase64Encoded, nil
}

// eventV1 is payload format 1.0, and what a load balancer sends, which is nearly the same.
type eventV1 struct {
	HTTPMethod                      string
	Path                            string
	Headers                         map[string]string
	MultiValueHeaders               map[string][]string
	QueryStringParameters           map[string]string
	MultiValueQueryStringParameters map[string][]string
	StageVariables                  map[string]string
	RequestContext                  struct {
		Stage    string
		Identity struct{ SourceIP string }
	}
	Body            string
	IsBase64Encoded bool
}

func parseV1(k kind, event []byte) (*call, string, bool, error) {
	var e eventV1
	if err := json.Unmarshal(event, &e); err != nil {
		return nil, "", false, err
	}
	c := &call{
		method: e.HTTPMethod, path: e.Path, query: joinQuery(k, e.QueryStringParameters, e.MultiValueQueryStringParameters),
		remote: e.RequestContext.Identity.SourceIP, header: http.Header{},
	}
	for name, values := range e.MultiValueHeaders {
		for _, value := range values {
			c.add(name, value)
		}
	}
	for name, value := range e.Headers {
		if _, ok := e.MultiValueHeaders[name]; !ok {
			c.add(name, value)
		}
	}
	c.pin(e.StageVariables)
	if k == gatewayV1 {
		// REST APIs keep escapes in the parameters of a path as in the path itself.
		c.path = escapePath(withoutStage(c.path, e.RequestContext.Stage), nil)
	}
	return c, e.Body, e.IsBase64Encoded, nil
}

func (c *call) add(name, value string) {
	name = textproto.CanonicalMIMEHeaderKey(name)
	c.header[name] = append(c.header[name], value)
}

// joinQuery writes the query again that came as a map. API Gateway has decoded its parts, a load balancer has not.
func joinQuery(k kind, single map[string]string, multi map[string][]string) string {
	all := url.Values{}
	for name, values := range multi {
		all[name] = values
	}
	for name, value := range single {
		if _, ok := all[name]; !ok {
			all.Set(name, value)
		}
	}
	if k == gatewayV1 {
		return all.Encode()
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, value := range all[name] {
			parts = append(parts, name+"="+value)
		}
	}
	return strings.Join(parts, "&")
}

// errRequest is in the error about a method, path or query that no HTTP request can have.
var errRequest = errors.New("the event does not describe an HTTP request")

// basinVariable is the stage variable by which an API of API Gateway serves one basin alone. Callers can neither see nor set
// one.
const basinVariable = "tailrace_basin"

func (c *call) pin(stageVariables map[string]string) {
	if basin, ok := stageVariables[basinVariable]; ok {
		c.pinned = &basin
	}
}

// keepToPin makes a request to an API of one basin one of that basin, and refuses what is not the basin's: a request that
// names another, and all that has no basin.
func (c *call) keepToPin(decoded string) error {
	if c.pinned == nil {
		return nil
	}
	// Routes are matched by their decoded segments, and a path is cleaned first.
	decoded = path.Clean(decoded)
	probe := slices.Contains(probes, decoded) && decoded != metricsPath
	if !probe && decoded != "/v1/streams" && !strings.HasPrefix(decoded, "/v1/streams/") {
		return wire.Errorf(wire.CodeBadPath, "this API is that of the basin %s, which has streams alone; basins, tokens, locations and metrics "+
			"are at the service's own address", *c.pinned)
	}
	for _, named := range c.header.Values(wire.HeaderBasin) {
		if strings.TrimSpace(named) != *c.pinned {
			return wire.Errorf(wire.CodeBadHeader, "s2-basin names another basin than the one that this API serves, which is %s; leave it out", *c.pinned)
		}
	}
	c.header.Set(wire.HeaderBasin, *c.pinned)
	return nil
}

// request makes the HTTP request.
func (c *call) request(ctx context.Context) (*http.Request, error) {
	target := c.path
	if c.query != "" {
		target += "?" + c.query
	}
	u, err := url.ParseRequestURI(target)
	if err != nil || !strings.HasPrefix(target, "/") {
		return nil, wire.Errorf(wire.CodeBadPath, "the path or the query is not one of a URL").Because(errors.Join(errRequest, err))
	}
	if err := c.keepToPin(u.Path); err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, c.method, "/", bytes.NewReader(c.body))
	if err != nil {
		return nil, wire.Errorf(wire.CodeBadHeader, "the method is not one of HTTP").Because(errors.Join(errRequest, err))
	}
	r.URL, r.RequestURI, r.Host, r.RemoteAddr, r.Header = u, target, c.host, c.remote, c.header
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	if len(c.body) == 0 {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	return r, nil
}
