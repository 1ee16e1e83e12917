package main

import (
	"fmt"
	"io"

	"github.com/tailrace-streams/tailrace/functions/config"
)

// printBanner writes the first lines of output: where it listens, where data lives, who may come in, and one command
// that works as it stands, however often it is run.
func printBanner(w io.Writer, cfg config.Config, url, where string) error {
	access := "anyone on this machine, without authentication"
	curl := "curl -sS"
	if cfg.TLS() {
		curl += "k" // by its address: the certificate is for a name
	}
	switch {
	case cfg.Auth:
		access = "whoever has an access token"
		curl += " -H 'authorization: Bearer TOKEN'"
	case cfg.InsecureNoAuth:
		access = "ANYONE WHO REACHES THIS ADDRESS may read, write and delete: there is no authentication"
	}
	_, err := fmt.Fprintf(w, `tailrace listens on %[1]s
data:    %[2]s
access:  %[3]s
try:     %[4]s -X PUT %[1]s/v1/basins/first-basin -H 'content-type: application/json' -d '{"config":{"create_stream_on_append":true}}'
`, url, where, access, curl)
	if err != nil {
		return fmt.Errorf("print first lines: %w", err)
	}
	return nil
}
