package faultproxy

import (
	"net/http"
	"net/url"
	"strings"
)

// The operations, by the names that S3 and DynamoDB give them; a request of DynamoDB has the name in its header. What is
// none of these is counted by its method.
const (
	PutObject     = "PutObject"
	GetObject     = "GetObject"
	HeadObject    = "HeadObject"
	DeleteObject  = "DeleteObject"
	DeleteObjects = "DeleteObjects"
	ListObjects   = "ListObjectsV2"

	GetItem    = "GetItem"
	PutItem    = "PutItem"
	UpdateItem = "UpdateItem"
	DeleteItem = "DeleteItem"
	Query      = "Query"
)

// Request is a request as rules see it. Nothing in it may be changed.
type Request struct {
	Op string
	// Bucket and Key are decoded, and empty for DynamoDB. Key is empty for what is not about one object.
	Bucket, Key string
	Method      string
	Host        string
	URL         *url.URL
	Header      http.Header
	Body        []byte
}

// Conditional reports whether S3 may do it only in a certain state.
func (r Request) Conditional() bool {
	return r.Header.Get("If-Match") != "" || r.Header.Get("If-None-Match") != ""
}

func newRequest(r *http.Request, body []byte) Request {
	at := *r.URL
	request := Request{Method: r.Method, Host: r.Host, URL: &at, Header: r.Header.Clone(), Body: body}
	if _, operation, found := strings.Cut(r.Header.Get("X-Amz-Target"), "."); found {
		request.Op = operation
		return request
	}
	request.Bucket, request.Key, _ = strings.Cut(strings.TrimPrefix(at.Path, "/"), "/")
	request.Op = objectOp(r.Method, request.Key, at.Query())
	return request
}

func objectOp(method, key string, query url.Values) string {
	if key == "" {
		switch {
		case method == http.MethodGet && query.Get("list-type") == "2":
			return ListObjects
		case method == http.MethodPost && query.Has("delete"):
			return DeleteObjects
		}
		return method
	}
	switch method {
	case http.MethodPut:
		return PutObject
	case http.MethodGet:
		return GetObject
	case http.MethodHead:
		return HeadObject
	case http.MethodDelete:
		return DeleteObject
	}
	return method
}
