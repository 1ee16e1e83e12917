package segments

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
)

// CipherAES256GCM is the name of the one cipher that records can be sealed with.
const CipherAES256GCM = "aes-256-gcm"

// SealKeyBytes is the size of a key.
const SealKeyBytes = 32

// ErrNotOpened is returned by Open for a record that the key does not authenticate: another key, another stream, or
// damage.
var ErrNotOpened = errors.New("the record is not opened by this key")

// Sealer encrypts records of one stream under a key that its clients hold and the service never stores (s2-api 19).
// Headers and body are sealed; timestamp and metered size are not, and command records stay plain, for the service
// acts by them. A sealed record is bound to its stream, so it cannot be moved to another. All methods may be called
// at once.
//
// A sealed body is the nonce, drawn at random for each record, and the ciphertext with its tag. What is encrypted is
// the number of headers, then for each the length and bytes of name and value, then the body.
type Sealer struct {
	aead   cipher.AEAD
	stream StreamID
}

// NewSealer makes a sealer of a key of SealKeyBytes.
func NewSealer(key []byte, stream StreamID) (*Sealer, error) {
	if len(key) != SealKeyBytes {
		return nil, fmt.Errorf("make sealer: a key has %d bytes, not %d", SealKeyBytes, len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("make sealer: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("make sealer: %w", err)
	}
	return &Sealer{aead, stream}, nil
}

// Seal returns the record sealed; a command record as it is. The record must have passed ValidateBatch, and its
// metered size stays what it was.
func (s *Sealer) Seal(r Record) Record {
	if c, err := ParseCommand(&r); err != nil || c.Kind != NoCommand {
		return r
	}
	size := r.MeteredSize()
	plain := binary.AppendUvarint(make([]byte, 0, maxRecordSize(&r)), uint64(len(r.Headers)))
	for i := range r.Headers {
		plain = appendBytes(plain, r.Headers[i].Name)
		plain = appendBytes(plain, r.Headers[i].Value)
	}
	plain = append(plain, r.Body...)
	r.Sealed, r.Headers = uint32(size), nil
	r.Body = s.aead.Seal(nil, nil, plain, s.stream[:])
	return r
}

// Open undoes Seal; a plain record is returned as it is. ErrNotOpened if the key is another.
func (s *Sealer) Open(r Record) (Record, error) {
	if r.Sealed == 0 {
		return r, nil
	}
	plain, err := s.aead.Open(nil, nil, r.Body, s.stream[:])
	if err != nil {
		return r, ErrNotOpened
	}
	in := input{b: plain}
	headers := in.uvarint()
	if headers > uint64(len(plain)) {
		return r, ErrNotOpened
	}
	size := r.Sealed
	r.Sealed, r.Headers = 0, nil
	for range headers {
		r.Headers = append(r.Headers, Header{Name: in.bytes(), Value: in.bytes()})
	}
	if r.Body = in.b; in.bad || r.MeteredSize() != uint64(size) {
		return r, ErrNotOpened
	}
	return r, nil
}
