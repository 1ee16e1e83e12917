package client

import (
	"fmt"
	"io"
)

const hidden = "[hidden]"

// Secret is an access token or an encryption key. However it is printed or encoded, it does not show; convert it to a
// string to have it.
type Secret string

// Format hides the secret from every verb of fmt.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// sealed keeps a secret in a field that is not exported. There fmt does not call methods; of a pointer within a struct it
// shows the address alone.
type sealed *Secret

func seal(s Secret) sealed {
	if s == "" {
		return nil
	}
	return &s
}

func unseal(s sealed) string {
	if s == nil {
		return ""
	}
	return string(*s)
}
