package wire

import (
	"errors"
	"net/url"
	"strconv"
)

// ParseQuery reads the raw query of a URL. Unlike url.URL.Query it refuses what it cannot read: `bad_query`.
func ParseQuery(raw string) (url.Values, error) {
	v, err := url.ParseQuery(raw)
	if err != nil {
		return nil, Errorf(CodeBadQuery, "the query string cannot be parsed")
	}
	return v, nil
}

// ReadQuery is the query of a read. Nil fields are not given: defaults depend on the kind of read.
type ReadQuery struct {
	// At most one of the three says where to start; none means the tail.
	SeqNum, Timestamp, TailOffset *uint64
	// Clamp moves a start beyond the tail to the tail.
	Clamp bool
	// Count and Bytes (metered) are the most to read.
	Count, Bytes *uint64
	// Until is a timestamp in milliseconds, exclusive.
	Until *uint64
	// Wait is in seconds. A unary read caps it at WaitMax.
	Wait *uint32
	// MinRevision is the parameter min_revision; empty for none.
	MinRevision string
}

var errNotNumber = errors.New("not an unsigned integer")

// parseU64 reads digits only: no sign, no space, not nothing.
func parseU64(text string) (uint64, error) {
	for i := range len(text) {
		if !isDigit(text[i]) {
			return 0, errNotNumber
		}
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, errNotNumber
	}
	return n, nil
}

// param gives the value of a parameter, which may be given once.
func param(v url.Values, name string) (value string, ok bool, err error) {
	switch values := v[name]; len(values) {
	case 0:
		return "", false, nil
	case 1:
		return values[0], true, nil
	}
	return "", false, Errorf(CodeBadQuery, "%s is given twice", name)
}

func numberParam(v url.Values, name string, most uint64) (*uint64, error) {
	text, ok, err := param(v, name)
	if !ok {
		return nil, err
	}
	n, err := parseU64(text)
	if err != nil || n > most {
		return nil, Errorf(CodeBadQuery, "%s must be an unsigned integer of at most %d", name, most)
	}
	return &n, nil
}

func boolParam(v url.Values, name string) (bool, error) {
	switch text, ok, err := param(v, name); {
	case !ok:
		return false, err
	case text == "true":
		return true, nil
	case text == "false":
		return false, nil
	}
	return false, Errorf(CodeBadQuery, "%s must be true or false", name)
}

// MinRevisionOf reads the parameter min_revision, empty for none: `bad_query`.
func MinRevisionOf(v url.Values) (string, error) {
	text, ok, err := param(v, "min_revision")
	if ok && text == "" {
		return "", Errorf(CodeBadQuery, "min_revision is empty")
	}
	return text, err
}

// ParseReadQuery reads the parameters of a read: `bad_query` for a value of the wrong type. What the values mean
// together is for Validate, which comes later in the order of checks.
func ParseReadQuery(v url.Values) (q ReadQuery, err error) {
	const most = 1<<64 - 1
	if q.Clamp, err = boolParam(v, "clamp"); err != nil {
		return ReadQuery{}, err
	}
	for _, p := range []struct {
		name string
		to   **uint64
	}{
		{"seq_num", &q.SeqNum}, {"timestamp", &q.Timestamp}, {"tail_offset", &q.TailOffset},
		{"count", &q.Count}, {"bytes", &q.Bytes}, {"until", &q.Until},
	} {
		if *p.to, err = numberParam(v, p.name, most); err != nil {
			return ReadQuery{}, err
		}
	}
	wait, err := numberParam(v, "wait", 1<<32-1)
	if err != nil {
		return ReadQuery{}, err
	}
	if wait != nil {
		seconds := uint32(*wait)
		q.Wait = &seconds
	}
	if q.MinRevision, err = MinRevisionOf(v); err != nil {
		return ReadQuery{}, err
	}
	return q, nil
}

// Validate refuses values that contradict each other: 422 `invalid`.
func (q ReadQuery) Validate() error {
	starts := 0
	for _, p := range []*uint64{q.SeqNum, q.Timestamp, q.TailOffset} {
		if p != nil {
			starts++
		}
	}
	if starts > 1 {
		return Errorf(CodeInvalid, "at most one of seq_num, timestamp and tail_offset may be given")
	}
	if q.Timestamp != nil && q.Until != nil && *q.Timestamp >= *q.Until {
		return Errorf(CodeInvalid, "timestamp must be less than until")
	}
	return nil
}

// ListQuery is the query of a listing.
type ListQuery struct {
	Prefix     string
	StartAfter string
	// Limit is 1 to ListLimitMax.
	Limit int
	// MinRevision is the parameter min_revision; empty for none.
	MinRevision string
}

// ParseListQuery reads the parameters of a listing of names of a kind: `bad_query`. No limit, 0, and more than
// ListLimitMax all mean ListLimitMax.
func ParseListQuery(v url.Values, kind NameKind) (q ListQuery, err error) {
	for _, p := range []struct {
		name string
		to   *string
	}{{"prefix", &q.Prefix}, {"start_after", &q.StartAfter}} {
		if *p.to, _, err = param(v, p.name); err == nil {
			err = within(p.name, CheckPrefix(kind, *p.to, CodeBadQuery))
		}
		if err != nil {
			return ListQuery{}, err
		}
	}
	limit, err := numberParam(v, "limit", 1<<64-1)
	if err != nil {
		return ListQuery{}, err
	}
	q.Limit = ListLimitMax
	if limit != nil && *limit > 0 && *limit < ListLimitMax {
		q.Limit = int(*limit)
	}
	if q.MinRevision, err = MinRevisionOf(v); err != nil {
		return ListQuery{}, err
	}
	return q, nil
}
