package wire

import "encoding/json"

// StorageClass is stored and shown.
type StorageClass string

// The storage classes of S2.
const (
	StorageStandard StorageClass = "standard"
	StorageExpress  StorageClass = "express"
)

// TimestampingMode says whose timestamps records get.
type TimestampingMode string

// The timestamping modes of S2.
const (
	TimestampClientPrefer  TimestampingMode = "client-prefer"
	TimestampClientRequire TimestampingMode = "client-require"
	TimestampArrival       TimestampingMode = "arrival"
)

// Cipher encrypts the records of a stream.
type Cipher string

// The ciphers of S2.
const (
	CipherAEGIS256  Cipher = "aegis-256"
	CipherAES256GCM Cipher = "aes-256-gcm"
)

// FencingMode says which appends a fencing token excludes. It is Tailrace's own: S2 knows the cooperative meaning only.
type FencingMode string

const (
	// FencingCooperative checks only appends that present a token, as S2 does. It is the default.
	FencingCooperative FencingMode = "cooperative"
	// FencingExclusive checks every append; presenting no token is presenting the empty one.
	FencingExclusive FencingMode = "exclusive"
)

// RetentionPolicy keeps records for an age or until they are trimmed. On the wire it is {"age": seconds} or
// {"infinite": {}}.
type RetentionPolicy struct {
	// Age is in seconds; it means nothing if Infinite. 0 has the right shape and is refused by Validate.
	Age      uint64
	Infinite bool
}

// MarshalJSON writes the one key that says which of the two it is.
func (p RetentionPolicy) MarshalJSON() ([]byte, error) {
	if p.Infinite {
		return []byte(`{"infinite":{}}`), nil
	}
	return json.Marshal(map[string]uint64{"age": p.Age})
}

// Timestamping says whose timestamps records get; nil fields are not set.
type Timestamping struct {
	Mode     *TimestampingMode `json:"mode"`
	Uncapped *bool             `json:"uncapped"`
}

// DeleteOnEmpty deletes a stream that has been empty for about MinAgeSecs; 0 does not.
type DeleteOnEmpty struct {
	MinAgeSecs uint64 `json:"min_age_secs"`
}

// StreamConfig configures a stream; nil fields are not set. A stream's own config in a response has all of S2's four.
type StreamConfig struct {
	StorageClass    *StorageClass    `json:"storage_class"`
	RetentionPolicy *RetentionPolicy `json:"retention_policy"`
	Timestamping    *Timestamping    `json:"timestamping"`
	DeleteOnEmpty   *DeleteOnEmpty   `json:"delete_on_empty"`
	// Fencing is Tailrace's own. Absent from a PUT it keeps what is there, because S2 clients do not know it.
	Fencing *FencingMode `json:"fencing,omitempty"`
}

// ForResponse is the config as a response shows it: objects with nothing set are null, and fencing is there only if it
// is exclusive. A client must not use it for a request, where "cooperative" is a change like any other.
func (c StreamConfig) ForResponse() StreamConfig {
	if c.Timestamping != nil && *c.Timestamping == (Timestamping{}) {
		c.Timestamping = nil
	}
	if c.Fencing != nil && *c.Fencing != FencingExclusive {
		c.Fencing = nil
	}
	return c
}

// BasinConfig configures a basin.
type BasinConfig struct {
	DefaultStreamConfig  *StreamConfig `json:"default_stream_config"`
	StreamCipher         *Cipher       `json:"stream_cipher"`
	CreateStreamOnAppend bool          `json:"create_stream_on_append"`
	CreateStreamOnRead   bool          `json:"create_stream_on_read"`
}

// ForResponse is the config as a response shows it: the defaults are null when nothing in them is set.
func (c BasinConfig) ForResponse() BasinConfig {
	if c.DefaultStreamConfig != nil {
		d := c.DefaultStreamConfig.ForResponse()
		c.DefaultStreamConfig = &d
		if d == (StreamConfig{}) {
			c.DefaultStreamConfig = nil
		}
	}
	return c
}

// StreamReconfiguration changes a stream's config; see Optional for its three states. RetentionPolicy is replaced as a
// unit, the nested objects key by key.
type StreamReconfiguration struct {
	StorageClass    Optional[StorageClass]                 `json:"storage_class,omitzero"`
	RetentionPolicy Optional[RetentionPolicy]              `json:"retention_policy,omitzero"`
	Timestamping    Optional[TimestampingReconfiguration]  `json:"timestamping,omitzero"`
	DeleteOnEmpty   Optional[DeleteOnEmptyReconfiguration] `json:"delete_on_empty,omitzero"`
	Fencing         Optional[FencingMode]                  `json:"fencing,omitzero"`
}

// TimestampingReconfiguration changes a Timestamping key by key.
type TimestampingReconfiguration struct {
	Mode     Optional[TimestampingMode] `json:"mode,omitzero"`
	Uncapped Optional[bool]             `json:"uncapped,omitzero"`
}

// DeleteOnEmptyReconfiguration changes a DeleteOnEmpty key by key.
type DeleteOnEmptyReconfiguration struct {
	MinAgeSecs Optional[uint64] `json:"min_age_secs,omitzero"`
}

// BasinReconfiguration changes a basin's config. The two booleans are absent or a value, never null.
type BasinReconfiguration struct {
	DefaultStreamConfig  Optional[StreamReconfiguration] `json:"default_stream_config,omitzero"`
	StreamCipher         Optional[Cipher]                `json:"stream_cipher,omitzero"`
	CreateStreamOnAppend *bool                           `json:"create_stream_on_append,omitempty"`
	CreateStreamOnRead   *bool                           `json:"create_stream_on_read,omitempty"`
}

// Validate refuses what has the right shape and no meaning: 422 `invalid`.
func (p RetentionPolicy) Validate() error {
	if !p.Infinite && p.Age == 0 {
		return Errorf(CodeInvalid, "retention_policy: age must be greater than 0 seconds")
	}
	return nil
}

// Validate refuses a retention age of 0.
func (c *StreamConfig) Validate() error {
	if c == nil || c.RetentionPolicy == nil {
		return nil
	}
	return c.RetentionPolicy.Validate()
}

// Validate refuses a retention age of 0 in the defaults.
func (c *BasinConfig) Validate() error {
	if c == nil {
		return nil
	}
	return c.DefaultStreamConfig.Validate()
}

// Validate refuses a retention age of 0.
func (c StreamReconfiguration) Validate() error {
	if policy, ok := c.RetentionPolicy.Get(); ok {
		return policy.Validate()
	}
	return nil
}

// Validate refuses a retention age of 0 in the defaults.
func (c BasinReconfiguration) Validate() error {
	if defaults, ok := c.DefaultStreamConfig.Get(); ok {
		return defaults.Validate()
	}
	return nil
}
