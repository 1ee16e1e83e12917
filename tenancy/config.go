package tenancy

import (
	"slices"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// Settings are the leaves of a stream's configuration that somebody set: the creator of a stream, or its basin as a
// default. A nil leaf is unset and says nothing; a zero behind a pointer is a value like any other.
type Settings struct {
	StorageClass     *coordinator.StorageClass     `json:"storage_class,omitempty"`
	Retention        *Retention                    `json:"retention,omitempty"`
	TimestampingMode *coordinator.TimestampingMode `json:"timestamping_mode,omitempty"`
	Uncapped         *bool                         `json:"timestamping_uncapped,omitempty"`
	// DeleteOnEmptyMinAge is in seconds; 0 is "never", said explicitly.
	DeleteOnEmptyMinAge *uint64                  `json:"delete_on_empty_min_age,omitempty"`
	Fencing             *coordinator.FencingMode `json:"fencing,omitempty"`
}

// Retention is either an age in seconds or infinite. An age of 0 is refused: it is neither "now" nor "never".
type Retention struct {
	Age      uint64 `json:"age,omitempty"`
	Infinite bool   `json:"infinite,omitempty"`
}

// seconds is the retention as a head stores it.
func (r Retention) seconds() uint64 {
	if r.Infinite {
		return 0
	}
	return r.Age
}

func (r Retention) check() error {
	if r.Infinite == (r.Age > 0) {
		return invalid("retention_policy: age must be greater than 0 seconds, or the policy infinite")
	}
	return nil
}

// BasinConfig is what was set on a basin. Leaves of DefaultStream that are unset stay unset: they are resolved when a
// stream is created.
type BasinConfig struct {
	DefaultStream Settings `json:"default_stream"`
	// StreamCipher is given to streams created from then on; empty is none.
	StreamCipher   string `json:"stream_cipher,omitempty"`
	CreateOnAppend bool   `json:"create_on_append,omitempty"`
	CreateOnRead   bool   `json:"create_on_read,omitempty"`
}

// over lays the set leaves over a config.
func (s *Settings) over(c coordinator.StreamConfig) coordinator.StreamConfig {
	set(&c.StorageClass, s.StorageClass)
	set(&c.Timestamping, s.TimestampingMode)
	set(&c.Uncapped, s.Uncapped)
	set(&c.DeleteOnEmptyMinAge, s.DeleteOnEmptyMinAge)
	set(&c.Fencing, s.Fencing)
	if s.Retention != nil {
		c.RetentionAge = s.Retention.seconds()
	}
	return c
}

func set[T any](leaf *T, value *T) {
	if value != nil {
		*leaf = *value
	}
}

// defaults is what a stream of the basin has where its creator said nothing (s2-api 17.1).
func (c *BasinConfig) defaults() coordinator.StreamConfig {
	return c.DefaultStream.over(coordinator.DefaultStreamConfig())
}

// Effective resolves a request against a basin's defaults and the system's.
func (c *BasinConfig) Effective(s Settings) coordinator.StreamConfig { return s.over(c.defaults()) }

func (s *Settings) check() error {
	if s.StorageClass != nil && !slices.Contains([]coordinator.StorageClass{coordinator.Standard, coordinator.Express}, *s.StorageClass) {
		return invalid("storage_class: %q is not one", *s.StorageClass)
	}
	modes := []coordinator.TimestampingMode{coordinator.ClientPrefer, coordinator.ClientRequire, coordinator.ArrivalTime}
	if s.TimestampingMode != nil && !slices.Contains(modes, *s.TimestampingMode) {
		return invalid("timestamping.mode: %q is not one", *s.TimestampingMode)
	}
	fencing := []coordinator.FencingMode{coordinator.Cooperative, coordinator.Exclusive}
	if s.Fencing != nil && !slices.Contains(fencing, *s.Fencing) {
		return invalid("fencing: %q is not one", *s.Fencing)
	}
	if s.Retention != nil {
		return s.Retention.check()
	}
	return nil
}

func (c *BasinConfig) check(ciphers []string) error {
	if c.StreamCipher != "" && !slices.Contains(ciphers, c.StreamCipher) {
		return invalid("stream_cipher: %q is not supported by this server", c.StreamCipher)
	}
	return c.DefaultStream.check()
}

// equal compares what was set, leaf by leaf.
func (c *BasinConfig) equal(o *BasinConfig) bool {
	a, b := &c.DefaultStream, &o.DefaultStream
	return same(a.StorageClass, b.StorageClass) && same(a.Retention, b.Retention) &&
		same(a.TimestampingMode, b.TimestampingMode) && same(a.Uncapped, b.Uncapped) &&
		same(a.DeleteOnEmptyMinAge, b.DeleteOnEmptyMinAge) && same(a.Fencing, b.Fencing) &&
		c.StreamCipher == o.StreamCipher && c.CreateOnAppend == o.CreateOnAppend && c.CreateOnRead == o.CreateOnRead
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
