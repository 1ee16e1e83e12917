package harness

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// BasinRoutes are the routes of an HTTP API of one basin, and the function behind each: those of iac/modules/basin, which a test
// there holds equal.
var BasinRoutes = map[string]string{
	"POST /v1/streams/{stream}/records":     "append",
	"PUT /v1/streams/{stream}/fence":        "append",
	"GET /v1/streams/{stream}/records":      "read",
	"GET /v1/streams/{stream}/records/tail": "read",
	"GET /v1/streams/{stream}/fence":        "read",
	"GET /v1/streams/{stream}":              "control",
	"PUT /v1/streams/{stream}":              "control",
	"PATCH /v1/streams/{stream}":            "control",
	"DELETE /v1/streams/{stream}":           "control",
	"ANY /v1/streams":                       "control",
	"POST /v1/streams/{proxy+}":             "append",
	"GET /v1/streams/{proxy+}":              "read",
	"PUT /v1/streams/{proxy+}":              "append",
	"ANY /v1/streams/{proxy+}":              "control",
	"GET /health":                           "control",
	"GET /ping":                             "control",
}

// match finds the route of a request as API Gateway does: on the decoded path, a route without {proxy+} before one with it,
// a method before ANY.
func match(method, path string) (route string, parameters map[string]string, ok bool) {
	best := -1
	for candidate := range BasinRoutes {
		verb, pattern, _ := strings.Cut(candidate, " ")
		if verb != method && verb != "ANY" {
			continue
		}
		found, fits := fit(pattern, path)
		rank := 0
		if _, greedy := found["proxy"]; !greedy {
			rank = 2
		}
		if verb != "ANY" {
			rank++
		}
		if fits && rank > best {
			best, route, parameters = rank, candidate, found
		}
	}
	return route, parameters, best >= 0
}

// fit compares a path with a pattern, element by element.
func fit(pattern, path string) (parameters map[string]string, ok bool) {
	parameters = map[string]string{}
	want, have := strings.Split(pattern, "/"), strings.Split(path, "/")
	for i, element := range want {
		switch {
		case i >= len(have):
			return nil, false
		case element == "{proxy+}":
			parameters["proxy"] = strings.Join(have[i:], "/")
			return parameters, parameters["proxy"] != ""
		case element == "{stream}" && have[i] != "":
			parameters["stream"] = have[i]
		case element != have[i]:
			return nil, false
		}
	}
	return parameters, len(want) == len(have)
}

// HTTPAPI is an http.Handler before the gateway's processes as an HTTP API of one basin is: payload format 2.0, decoded paths,
// answers in one piece, and a stage that names the basin.
func (g *Gateway) HTTPAPI(basin string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route, parameters, ok := match(r.Method, r.URL.Path)
		if !ok {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"message":"Not Found"}`)
			return
		}
		event, err := httpAPIEvent(r, basin, route, parameters)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		// The integration's time; an invocation is not given up when its client goes.
		g.dispatch(w, r, BasinRoutes[route], event, 30*time.Second, answerWhole)
	})
}

func httpAPIEvent(r *http.Request, basin, route string, parameters map[string]string) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	headers := map[string]string{"host": r.Host}
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	return json.Marshal(map[string]any{
		"version": "2.0", "routeKey": route, "rawPath": r.URL.Path, "rawQueryString": r.URL.RawQuery, "headers": headers,
		"pathParameters": parameters, "stageVariables": map[string]string{"tailrace_basin": basin},
		"requestContext": map[string]any{
			"accountId": "123456789012", "apiId": "local", "domainName": "local.execute-api.us-east-1.amazonaws.com", "domainPrefix": "local", "stage": "$default", "routeKey": route,
			"http": map[string]any{"method": r.Method, "path": r.URL.Path, "protocol": r.Proto, "sourceIp": "127.0.0.1"},
		},
		"body": base64.StdEncoding.EncodeToString(body), "isBase64Encoded": true,
	})
}

// answerWhole has a request answered in one piece, and reports whether the process can take another.
func answerWhole(w http.ResponseWriter, f *Function, event []byte, timeout time.Duration) (alive bool) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	text, err := f.Invoke(ctx, event, timeout)
	var a struct {
		StatusCode      int
		Headers         map[string]string
		Body            string
		IsBase64Encoded bool
	}
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	body := []byte(a.Body)
	if err == nil && a.IsBase64Encoded {
		body, err = base64.StdEncoding.DecodeString(a.Body)
	}
	if err != nil || a.StatusCode == 0 {
		w.WriteHeader(http.StatusInternalServerError) // as API Gateway says it
		_, _ = io.WriteString(w, `{"message":"Internal Server Error"}`)
		return !errors.Is(err, ErrFunctionEnded) && ctx.Err() == nil
	}
	for name, value := range a.Headers {
		w.Header().Set(name, value)
	}
	w.Header().Del("Content-Length") // net/http counts
	w.WriteHeader(a.StatusCode)
	_, _ = w.Write(body)
	return true
}
