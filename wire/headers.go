package wire

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// Headers of S2. Never log HeaderEncryptionKey, nor Authorization.
const (
	HeaderBasin           = "S2-Basin"
	HeaderFormat          = "S2-Format"
	HeaderRequestToken    = "S2-Request-Token"
	HeaderEncryptionKey   = "S2-Encryption-Key"
	HeaderStreamConfig    = "S2-Stream-Config"
	HeaderProvisionResult = "S2-Provision-Result"
	HeaderLastEventID     = "Last-Event-ID"
	HeaderRetryAfterMs    = "Retry-After-Ms"
)

// Headers of Tailrace. Clients that do not know them lose nothing that S2 promises.
const (
	// HeaderApplied is on every error: an Applied.
	HeaderApplied = "Tailrace-Applied"
	// HeaderTail gives the tail with a missed match_seq_num; see FormatTail.
	HeaderTail = "Tailrace-Tail"
	// HeaderRevision names the state that a write made, or that an answer reflects. With RevisionInAcks in the request, an
	// append session is told versions in its acknowledgements.
	HeaderRevision = "Tailrace-Revision"
	// HeaderConflicts asks an append session with ConflictsPerBatch to survive a missed match_seq_num.
	HeaderConflicts = "Tailrace-Conflicts"
	// HeaderFencingToken carries a fencing token where there is no body for it.
	HeaderFencingToken = "Tailrace-Fencing-Token"
	// HeaderConsistency allows with ConsistencyEventual an answer from a cache.
	HeaderConsistency = "Tailrace-Consistency"
	// HeaderMinRevision demands that the answer reflect a revision; also the query parameter min_revision.
	HeaderMinRevision = "Tailrace-Min-Revision"
	// HeaderRevisionTimeoutMs says how long to wait for it.
	HeaderRevisionTimeoutMs = "Tailrace-Revision-Timeout-Ms"
	// HeaderMaxAgeMs bounds the age of an answer from a cache, below the server's own bound.
	HeaderMaxAgeMs = "Tailrace-Max-Age-Ms"
	// HeaderAgeMs says how old the state is, at most, that an answer with ConsistencyEventual shows.
	HeaderAgeMs = "Tailrace-Age-Ms"
)

// Values of Tailrace's headers.
const (
	ConflictsPerBatch   = "per-batch"
	RevisionInAcks      = "acks"
	ConsistencyEventual = "eventual"
	ConsistencyStrong   = "strong"
)

// CheckSingle refuses a request with two values for a header that has one: `bad_header`. Of two basins, tokens or conditions
// a proxy may take one and a server the other, so none is. The rule is for kinds and not for names: all headers of S2 and
// of Tailrace have one value, and so have the two here that are neither's. Equal values count as two.
func CheckSingle(h http.Header) error {
	for name, values := range h {
		if len(values) > 1 && single(name) {
			return Errorf(CodeBadHeader, "the request has the header %s %d times; send it once", strings.ToLower(name), len(values))
		}
	}
	return nil
}

// single reports whether a header, by its canonical name, has one value.
func single(name string) bool {
	switch name {
	case "Authorization", canonicalLastEventID:
		return true
	}
	return strings.HasPrefix(name, "S2-") || strings.HasPrefix(name, "Tailrace-")
}

// canonicalLastEventID is HeaderLastEventID as net/http files it.
const canonicalLastEventID = "Last-Event-Id"

// header gives a header's value, trimmed, and whether it is there: an empty value is not an absent one.
func header(h http.Header, name string) (value string, ok bool) {
	values := h.Values(name)
	if len(values) == 0 {
		return "", false
	}
	return strings.TrimSpace(values[0]), true
}

// BasinOf reads the header s2-basin, which must be there: `bad_header`.
func BasinOf(h http.Header) (string, error) {
	name, ok := header(h, HeaderBasin)
	if !ok {
		return "", Errorf(CodeBadHeader, "missing header s2-basin")
	}
	return name, CheckBasinName(name, CodeBadHeader)
}

// FormatOf reads the header s2-format; without it the format is raw.
func FormatOf(h http.Header) (Format, error) {
	value, ok := header(h, HeaderFormat)
	if !ok {
		return FormatRaw, nil
	}
	return ParseFormat(value)
}

// ParseFormat reads a format's name or its alias.
func ParseFormat(name string) (Format, error) {
	switch name {
	case "raw", "json":
		return FormatRaw, nil
	case "base64", "json-binsafe":
		return FormatBase64, nil
	}
	return FormatRaw, Errorf(CodeBadHeader, "s2-format is raw or base64")
}

// RequestTokenOf reads the header s2-request-token; the token is nil without it.
func RequestTokenOf(h http.Header) (*string, error) {
	token, ok := header(h, HeaderRequestToken)
	if !ok {
		return nil, nil
	}
	if len(token) > RequestTokenMax {
		return nil, Errorf(CodeBadHeader, "s2-request-token has at most %d bytes", RequestTokenMax)
	}
	return &token, nil
}

// EncryptionKeyOf reads the header s2-encryption-key, empty if it is not there. Its length is checked on every stream;
// whether it is a key, only on an encrypted one.
func EncryptionKeyOf(h http.Header) (string, error) {
	key, ok := header(h, HeaderEncryptionKey)
	if ok && (key == "" || len(key) > EncryptionKeyMax) {
		return "", Errorf(CodeBadHeader, "s2-encryption-key has 1 to %d characters", EncryptionKeyMax)
	}
	return key, nil
}

// StreamConfigOf reads the header s2-stream-config: what a stream that the request has to make is to have over its basin's
// defaults, nil without the header. SDKs of July 2026 and later send it with appends and reads. Anything wrong with it is
// `bad_header`, even where no stream is made.
func StreamConfigOf(h http.Header) (*StreamConfig, error) {
	text, ok := header(h, HeaderStreamConfig)
	if !ok {
		return nil, nil
	}
	if len(text) > StreamConfigMax {
		return nil, Errorf(CodeBadHeader, "s2-stream-config has at most %d bytes", StreamConfigMax)
	}
	config, err := DecodeStreamConfig([]byte(text))
	if err == nil {
		err = config.Validate()
	}
	if err != nil {
		message := err.Error()
		if known := new(Error); errors.As(err, &known) {
			message = known.Message
		}
		return nil, Errorf(CodeBadHeader, "s2-stream-config: %s", message)
	}
	return &config, nil
}

// ConflictsOf reports whether an append session asks to survive a missed match_seq_num.
func ConflictsOf(h http.Header) (perBatch bool, err error) {
	switch value, ok := header(h, HeaderConflicts); {
	case !ok:
		return false, nil
	case value == ConflictsPerBatch:
		return true, nil
	}
	return false, Errorf(CodeBadHeader, "%s is %s", HeaderConflicts, ConflictsPerBatch)
}

// RevisionInAcksOf reports whether an append session asks for the version that each of its batches made.
func RevisionInAcksOf(h http.Header) (bool, error) {
	switch value, ok := header(h, HeaderRevision); {
	case !ok:
		return false, nil
	case value == RevisionInAcks:
		return true, nil
	}
	return false, Errorf(CodeBadHeader, "%s of a request is %s", HeaderRevision, RevisionInAcks)
}

// FormatTail writes a position for the header Tailrace-Tail: the sequence number and the timestamp, with a comma.
func FormatTail(p StreamPosition) string {
	return strconv.FormatUint(p.SeqNum, 10) + "," + strconv.FormatUint(p.Timestamp, 10)
}

// ParseTail reads what FormatTail writes.
func ParseTail(text string) (StreamPosition, error) {
	seq, timestamp, ok := strings.Cut(text, ",")
	s, errSeq := parseU64(strings.TrimSpace(seq))
	t, errTime := parseU64(strings.TrimSpace(timestamp))
	if !ok || errSeq != nil || errTime != nil {
		return StreamPosition{}, Errorf(CodeBadHeader, "%s is a sequence number and a timestamp", HeaderTail)
	}
	return StreamPosition{SeqNum: s, Timestamp: t}, nil
}
