package fakes3

import (
	"net/http"
	"net/url"
	"strings"
)

// Op is what a request asks for.
type Op string

// The operations, and OpOther for all that the server answers by 501.
const (
	OpPut        Op = "put"
	OpGet        Op = "get"
	OpHead       Op = "head"
	OpDelete     Op = "delete"
	OpDeleteMany Op = "delete many"
	OpList       Op = "list"
	OpBucket     Op = "bucket" // make, look for, or locate a bucket
	OpOther      Op = "other"
)

// Request is a request as rules and tests see it.
type Request struct {
	// N counts requests, from 1.
	N  int
	Op Op
	// Bucket and Key are decoded. Key is empty for what is not about one object.
	Bucket, Key string
	Method      string
	Host        string
	Header      http.Header
	Query       url.Values
	// Length is the declared length of the body, -1 if none was.
	Length int64
	// Conn is the number of the connection it came on.
	Conn int
}

// Conditional reports whether it may only be done in a certain state.
func (r Request) Conditional() bool {
	return r.Header.Get("If-Match") != "" || r.Header.Get("If-None-Match") != ""
}

func newRequest(r *http.Request) Request {
	req := Request{
		Method: r.Method, Host: r.Host, Header: r.Header.Clone(), Query: r.URL.Query(), Length: r.ContentLength,
	}
	req.Conn, _ = r.Context().Value(connKey{}).(int)
	path := strings.TrimPrefix(r.URL.Path, "/")
	if strings.HasPrefix(r.Host, Bucket+".") {
		path = Bucket + "/" + path
	}
	req.Bucket, req.Key, _ = strings.Cut(path, "/")
	req.Op = req.op()
	return req
}

func (r Request) op() Op {
	if r.Query.Has("uploads") || r.Query.Has("uploadId") || r.Header.Get("X-Amz-Copy-Source") != "" {
		return OpOther
	}
	if r.Key == "" {
		switch {
		case r.Method == http.MethodGet && r.Query.Get("list-type") == "2":
			return OpList
		case r.Method == http.MethodPost && r.Query.Has("delete"):
			return OpDeleteMany
		case r.Method == http.MethodHead, r.Method == http.MethodPut, r.Method == http.MethodGet && r.Query.Has("location"):
			return OpBucket
		}
		return OpOther
	}
	switch r.Method {
	case http.MethodPut:
		return OpPut
	case http.MethodGet:
		return OpGet
	case http.MethodHead:
		return OpHead
	case http.MethodDelete:
		return OpDelete
	}
	return OpOther
}
