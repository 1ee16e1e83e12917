package api

import "net/http"

// Append and read sessions.

func (h *handler) appendSession(_ *exchange, _ *http.Request, _, _ string) error {
	return notImplemented("append sessions")
}

func (h *handler) readSession(_ *exchange, _ *http.Request, _ readRequest) error {
	return notImplemented("read sessions")
}
