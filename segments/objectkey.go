package segments

import (
	"errors"
	"fmt"
	"strings"
)

// ErrBadKey is returned for an object key or prefix that breaks the rules of Objects.
var ErrBadKey = errors.New("segments: not an object key")

// CheckKey returns ErrBadKey unless the key keeps the rules of Objects. Stores that turn keys into paths call it
// before every use, so that no mistake above them can reach outside their folder.
func CheckKey(key string) error {
	if len(key) > MaxKeyBytes {
		return fmt.Errorf("check key of %d bytes: %w", len(key), ErrBadKey)
	}
	for part := range strings.SplitSeq(key, "/") {
		if !IsKeyPart(part) {
			return fmt.Errorf("check key: %w", ErrBadKey)
		}
	}
	return nil
}

// CheckPrefix returns ErrBadKey unless the prefix is one that List takes: empty, or whole parts and a slash.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	folder, ok := strings.CutSuffix(prefix, "/")
	if !ok {
		return fmt.Errorf("check prefix: %w", ErrBadKey)
	}
	return CheckKey(folder)
}

// IsKeyPart reports whether s may stand between the slashes of a key.
func IsKeyPart(s string) bool {
	if s == "" || s == "." || s == ".." || len(s) > MaxKeyPartBytes {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
