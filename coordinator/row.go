package coordinator

import (
	"errors"
	"fmt"
)

// The limits of control records (see Key and Row). They are what DynamoDB keys and one write of it hold.
const (
	MaxPartBytes  = 200
	MaxSortBytes  = 1024
	MaxValueBytes = 64 << 10
)

// ErrBadRow is wrapped by the errors of Validate: the caller is wrong, no store would take it.
var ErrBadRow = errors.New("row breaks the limits of a table")

// Validate checks the limits of a key. Its errors are ErrBadRow and, since such a write is never sent, ErrNotApplied.
func (k Key) Validate() error {
	if err := ValidatePart(k.Part); err != nil {
		return err
	}
	if len(k.Sort) == 0 || len(k.Sort) > MaxSortBytes {
		return fmt.Errorf("%w: sort key of %d bytes: %w", ErrBadRow, len(k.Sort), ErrNotApplied)
	}
	return nil
}

// ValidatePart checks the limits of a part. Its errors are those of Key.Validate.
func ValidatePart(part string) error {
	if len(part) == 0 || len(part) > MaxPartBytes {
		return fmt.Errorf("%w: part of %d bytes: %w", ErrBadRow, len(part), ErrNotApplied)
	}
	for i := range len(part) {
		if part[i] < ' ' || part[i] > '~' {
			return fmt.Errorf("%w: byte %#x in a part: %w", ErrBadRow, part[i], ErrNotApplied)
		}
	}
	return nil
}

// Validate checks the limits of a row that is about to be written. Its errors are those of Key.Validate.
func (r *Row) Validate() error {
	if err := r.Key.Validate(); err != nil {
		return err
	}
	if len(r.Value) > MaxValueBytes {
		return fmt.Errorf("%w: value of %d bytes: %w", ErrBadRow, len(r.Value), ErrNotApplied)
	}
	return nil
}
