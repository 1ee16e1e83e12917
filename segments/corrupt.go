package segments

import (
	"errors"
	"fmt"
)

// ErrCorrupt is what every error about stored bytes that are damaged, cut short or misplaced is (errors.Is). Reading
// them again gives the same error, so it calls for an operator, never for a retry without end.
var ErrCorrupt = errors.New("stored data is corrupt")

// CorruptError says which stored thing is damaged and how. It never holds stored bytes.
type CorruptError struct {
	// What is "chunk", "segment" or "page"; Reader puts the object's id behind it.
	What string
	// First and N are, for chunks, the unreadable records among those asked for: counted from the start of the chunk
	// by DecodeChunk and from the start of the entry by Reader. Reading goes on at End. Zero for segments and pages.
	First, N uint32
	// Cause tells what was wrong; a *VersionError if the bytes may be sound but are of a format not known here.
	Cause error
}

// End is the first record behind the damage.
func (e *CorruptError) End() uint32 { return e.First + e.N }

func (e *CorruptError) Error() string {
	if e.N == 0 {
		return fmt.Sprintf("%s: %v: %v", e.What, ErrCorrupt, e.Cause)
	}
	return fmt.Sprintf("%s: records %d to %d: %v: %v", e.What, e.First, e.End()-1, ErrCorrupt, e.Cause)
}

// Is makes every CorruptError an ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Unwrap gives the cause.
func (e *CorruptError) Unwrap() error { return e.Cause }

func corrupt(what, format string, args ...any) error {
	return &CorruptError{What: what, Cause: fmt.Errorf(format, args...)}
}

// VersionError is returned for an object whose format this code does not know: written by a newer release, to be
// left alone rather than repaired. It is not ErrCorrupt, except as the cause of a damaged range of a chunk, where a
// flipped bit cannot be told from a new format.
type VersionError struct {
	What    string // "segment", "page" or "block"
	Version uint16 // as found
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has format version %d, which this release cannot read", e.What, e.Version)
}
