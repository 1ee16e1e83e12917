package coordinator

// StreamConfig is a stream's effective configuration, every leaf resolved (s2-api 17.1). The head carries it, so
// that no cached copy can decide an append.
type StreamConfig struct {
	StorageClass StorageClass `json:"storage_class"`
	// RetentionAge is the age in seconds after which records expire; 0 keeps them until trimmed.
	RetentionAge uint64           `json:"retention_age"`
	Timestamping TimestampingMode `json:"timestamping_mode"`
	// Uncapped lets client timestamps lie above the arrival time.
	Uncapped bool `json:"timestamping_uncapped,omitempty"`
	// DeleteOnEmptyMinAge is the age in seconds after which a stream without records is deleted; 0 is never.
	DeleteOnEmptyMinAge uint64      `json:"delete_on_empty_min_age,omitempty"`
	Fencing             FencingMode `json:"fencing,omitempty"`
}

// StorageClass is stored and shown; it has no effect on this service.
type StorageClass string

// The storage classes of the S2 API.
const (
	Standard StorageClass = "standard"
	Express  StorageClass = "express"
)

// TimestampingMode says where raw timestamps come from (s2-api 14.3).
type TimestampingMode string

// The modes of the S2 API.
const (
	ClientPrefer  TimestampingMode = "client-prefer"
	ClientRequire TimestampingMode = "client-require"
	ArrivalTime   TimestampingMode = "arrival"
)

// FencingMode says which appends the installed token is checked for (design 7).
type FencingMode string

// Cooperative checks only appends that present a token, Exclusive every append.
const (
	Cooperative FencingMode = "cooperative"
	Exclusive   FencingMode = "exclusive"
)

// DefaultStreamConfig is what a stream has where neither its creator nor its basin said otherwise.
func DefaultStreamConfig() StreamConfig {
	return StreamConfig{
		StorageClass: Express,
		RetentionAge: 7 * 24 * 60 * 60,
		Timestamping: ClientPrefer,
		Fencing:      Cooperative,
	}
}
