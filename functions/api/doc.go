// Package api is the S2 v1 HTTP API as one http.Handler over a coordinator and a directory. It knows no store and no
// process: the same handler is served by `tailrace serve`, by tests and by functions. README.md has the table of routes
// and the life of a request.
//
// Every handler is a method that returns an error; what an error means on the wire is decided in errors.go alone.
package api
