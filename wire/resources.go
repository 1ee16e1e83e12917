package wire

import (
	"encoding/json"
	"time"
)

// Time is a time in a resource: RFC 3339 in UTC. It is written with exactly three decimals, because some clients'
// parsers take three or six and nothing else; it is read with any number.
type Time struct{ time.Time }

// MarshalJSON writes the time.
func (t Time) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(nil, `"2006-01-02T15:04:05.000Z"`), nil
}

// The results of creating or ensuring a resource, for the header s2-provision-result.
const (
	ProvisionCreated = "created"
	ProvisionUpdated = "updated"
	ProvisionNoop    = "noop"
)

// BasinInfo describes a basin. The deprecated `state` is written from DeletedAt: old clients require it.
type BasinInfo struct {
	Name      string  `json:"name"`
	Location  *string `json:"location"`
	CreatedAt Time    `json:"created_at"`
	DeletedAt *Time   `json:"deleted_at"`
}

// MarshalJSON writes the fields and the state.
func (b BasinInfo) MarshalJSON() ([]byte, error) {
	type plain BasinInfo // without this method
	state := "active"
	if b.DeletedAt != nil {
		state = "deleting"
	}
	return json.Marshal(struct {
		plain
		State string `json:"state"`
	}{plain(b), state})
}

// StreamInfo describes a stream.
type StreamInfo struct {
	Name      string  `json:"name"`
	CreatedAt Time    `json:"created_at"`
	DeletedAt *Time   `json:"deleted_at"`
	Cipher    *Cipher `json:"cipher"`
}

// ListBasinsResponse is a page of basins; Basins is not nil in a response, for null is no array.
type ListBasinsResponse struct {
	Basins  []BasinInfo `json:"basins"`
	HasMore bool        `json:"has_more"`
}

// MarshalJSON writes no basins as an empty array.
func (l ListBasinsResponse) MarshalJSON() ([]byte, error) {
	type plain ListBasinsResponse
	if l.Basins == nil {
		l.Basins = []BasinInfo{}
	}
	return json.Marshal(plain(l))
}

// ListStreamsResponse is a page of streams.
type ListStreamsResponse struct {
	Streams []StreamInfo `json:"streams"`
	HasMore bool         `json:"has_more"`
}

// MarshalJSON writes no streams as an empty array.
func (l ListStreamsResponse) MarshalJSON() ([]byte, error) {
	type plain ListStreamsResponse
	if l.Streams == nil {
		l.Streams = []StreamInfo{}
	}
	return json.Marshal(plain(l))
}

// CreateBasinRequest is the body of a POST of a basin.
type CreateBasinRequest struct {
	Basin    string       `json:"basin"`
	Config   *BasinConfig `json:"config,omitempty"`
	Location *string      `json:"location,omitempty"`
}

// EnsureBasinRequest is the optional body of a PUT of a basin.
type EnsureBasinRequest struct {
	Config   *BasinConfig `json:"config,omitempty"`
	Location *string      `json:"location,omitempty"`
}

// CreateStreamRequest is the body of a POST of a stream.
type CreateStreamRequest struct {
	Stream string        `json:"stream"`
	Config *StreamConfig `json:"config,omitempty"`
}

// readName reads a string that must be a name.
func readName(check func(name string, at Code) error) func(*scanner) (string, error) {
	return func(s *scanner) (string, error) {
		name, err := readString(s)
		if err != nil {
			return "", err
		}
		return name, check(name, CodeBadJSON)
	}
}

// DecodeCreateBasin reads the body of a POST of a basin, names included.
func DecodeCreateBasin(body []byte) (CreateBasinRequest, error) {
	r, err := decodeAs(body, func(s *scanner) (r CreateBasinRequest, err error) {
		err = s.fields(map[string]field{
			"basin":    plainField(&r.Basin, readName(CheckBasinName)),
			"config":   nullableField(&r.Config, readBasinConfig),
			"location": nullableField(&r.Location, readName(CheckLocationName)),
		})
		return r, err
	})
	if err == nil && r.Basin == "" { // no valid name is empty
		err = missing("basin")
	}
	return r, err
}

// DecodeEnsureBasin reads the body of a PUT of a basin; see OptionalJSON for when there is one.
func DecodeEnsureBasin(body []byte) (EnsureBasinRequest, error) {
	return decodeAs(body, func(s *scanner) (r EnsureBasinRequest, err error) {
		err = s.fields(map[string]field{
			"config":   nullableField(&r.Config, readBasinConfig),
			"location": nullableField(&r.Location, readName(CheckLocationName)),
		})
		return r, err
	})
}

// DecodeCreateStream reads the body of a POST of a stream, names included.
func DecodeCreateStream(body []byte) (CreateStreamRequest, error) {
	r, err := decodeAs(body, func(s *scanner) (r CreateStreamRequest, err error) {
		err = s.fields(map[string]field{
			"stream": plainField(&r.Stream, readName(CheckStreamName)),
			"config": nullableField(&r.Config, readStreamConfig),
		})
		return r, err
	})
	if err == nil && r.Stream == "" {
		err = missing("stream")
	}
	return r, err
}
