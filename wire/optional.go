package wire

import "encoding/json"

// Optional is a field of a reconfiguration in one of three states: absent (the zero Optional: leave what is there),
// null (reset to the default), or a value. A pointer could not tell the first two apart.
type Optional[T any] struct {
	present bool
	value   *T
}

// Null is an Optional that resets.
func Null[T any]() Optional[T] { return Optional[T]{present: true} }

// Some is an Optional with a value.
func Some[T any](v T) Optional[T] { return Optional[T]{present: true, value: &v} }

// Present reports whether the field is there at all, as null or as a value.
func (o Optional[T]) Present() bool { return o.present }

// IsNull reports whether the field is there and null.
func (o Optional[T]) IsNull() bool { return o.present && o.value == nil }

// Get gives the value, if there is one.
func (o Optional[T]) Get() (v T, ok bool) {
	if o.value == nil {
		return v, false
	}
	return *o.value, true
}

// IsZero reports absence; the tag omitzero leaves such a field out.
func (o Optional[T]) IsZero() bool { return !o.present }

// MarshalJSON writes null or the value.
func (o Optional[T]) MarshalJSON() ([]byte, error) { return json.Marshal(o.value) }

// UnmarshalJSON is called only for a key that is there, which is how presence is known.
func (o *Optional[T]) UnmarshalJSON(text []byte) error {
	o.present, o.value = true, nil
	return json.Unmarshal(text, &o.value)
}

// readOptional reads null or a value into *to, and marks it present.
func readOptional[T any](s *scanner, to *Optional[T], read func(*scanner) (T, error)) error {
	v, err := nullable(s, read)
	if err == nil {
		*to = Optional[T]{present: true, value: v}
	}
	return err
}
