package wire

import (
	"net/http"
	"time"
)

// ReadTerms is what a read says, beyond S2, about the state that it wants to be served from.
type ReadTerms struct {
	// Asked says that the request has one of these headers or the parameter: the answer names its revision then. A read
	// without is S2's, and its answer has nothing that S2's has not.
	Asked bool
	// Eventual allows an answer from a cache, at most MaxAge old where that is not nil.
	Eventual bool
	MaxAge   *time.Duration
	// Min is the revision that the answer must reflect; nil for none. At is what a mistake with it is: CodeBadHeader or
	// CodeBadQuery, by where it was given.
	Min *Revision
	At  Code
	// Timeout is how long to wait for it; 0 tries once.
	Timeout time.Duration
}

// ReadTermsOf reads the headers, with minQuery (the query parameter min_revision, empty for none) where the header
// Tailrace-Min-Revision is missing: the header wins, and then the parameter is not looked at. A timeout beyond the
// maximum is cut to it.
func ReadTermsOf(h http.Header, minQuery string) (ReadTerms, error) {
	t := ReadTerms{Timeout: RevisionTimeoutDefault, At: CodeBadHeader}
	switch value, ok := header(h, HeaderConsistency); {
	case !ok:
	case value == ConsistencyStrong, value == ConsistencyEventual:
		t.Asked, t.Eventual = true, value == ConsistencyEventual
	default:
		return t, Errorf(CodeBadHeader, "%s is %s or %s", HeaderConsistency, ConsistencyStrong, ConsistencyEventual)
	}
	age, err := millisOf(h, HeaderMaxAgeMs)
	switch {
	case err != nil:
		return t, err
	case age != nil && !t.Eventual:
		return t, Errorf(CodeBadHeader, "%s is for %s: %s", HeaderMaxAgeMs, HeaderConsistency, ConsistencyEventual)
	}
	t.MaxAge = age
	timeout, err := millisOf(h, HeaderRevisionTimeoutMs)
	if err != nil {
		return t, err
	}
	if timeout != nil {
		t.Timeout = min(*timeout, RevisionTimeoutMax)
	}
	return t, t.demand(h, minQuery)
}

// demand reads the minimum revision.
func (t *ReadTerms) demand(h http.Header, minQuery string) error {
	text, ok := header(h, HeaderMinRevision)
	if !ok {
		if minQuery == "" {
			return nil
		}
		text, t.At = minQuery, CodeBadQuery
	}
	r, err := ParseRevision(text, t.At)
	if err != nil {
		return err
	}
	t.Min, t.Asked = &r, true
	return nil
}

// millisMax is more than any bound on a time here, and small enough for a Duration.
const millisMax = uint64(365 * 24 * time.Hour / time.Millisecond)

// millisOf reads a time in milliseconds; nil without the header. What is out of all reason is cut.
func millisOf(h http.Header, name string) (*time.Duration, error) {
	text, ok := header(h, name)
	if !ok {
		return nil, nil
	}
	ms, err := parseU64(text)
	if err != nil {
		return nil, Errorf(CodeBadHeader, "%s is a number of milliseconds", name)
	}
	d := time.Duration(min(ms, millisMax)) * time.Millisecond
	return &d, nil
}
