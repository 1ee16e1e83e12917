package fakes3

import (
	"net/http"
	"strings"
	"time"
)

// Quirks are ways of a store that is always so. The zero value is S3 as AWS documents it.
type Quirks struct {
	// RefuseChunked: aws-chunked bodies, trailers and bodies of unknown length are answered by 501.
	RefuseChunked bool
	// RefuseChecksums: headers that give a checksum of the body of a PUT are answered by 400.
	RefuseChecksums bool
	// IgnoreConditions: If-Match and If-None-Match mean nothing.
	IgnoreConditions bool
	// IgnoreIfMatch, IgnoreIfNoneMatch: one of the two means nothing.
	IgnoreIfMatch, IgnoreIfNoneMatch bool
	// MissingIfMatch is the status of a PUT If-Match of an object that is not there; 0 is 404. 200 means that it is made.
	MissingIfMatch int
	// BothCreatorsWin: two PUTs If-None-Match that come together both succeed. The first waits RaceTime for a second.
	BothCreatorsWin bool
	// BothWritersWin: likewise two PUTs If-Match of the same state.
	BothWritersWin bool
	// Conflicts is how many conditional PUTs of each key are answered by 409 before one is looked at.
	Conflicts int
	// RepeatPuts: each PUT is done twice, as by something before the store that repeats requests; the answer is the second's.
	RepeatPuts bool
	// StaleGets: a GET answers what was there before the last write, if anything was.
	StaleGets bool
	// StaleLists: a listing has the sizes from before the last write, and not what was only written once.
	StaleLists bool
	// NoETag: no answer has one. WeakETags: all are weak. OneETag: all are the same.
	NoETag, WeakETags, OneETag bool
	// IgnoreRange: a GET is answered by the whole object.
	IgnoreRange bool
	// NoLength: the body of a GET ends with the connection.
	NoLength bool
	// PlainNotFound: what is missing is answered by 404 and a page for people, as by a proxy.
	PlainNotFound bool
	// HideMissing: what is missing is answered by 403, as to one without the right to list.
	HideMissing bool
	// NoDeleteMany: deletes of many keys are answered by 501.
	NoDeleteMany bool
	// LieOnDelete: a delete of many keys says that all went, and deletes none.
	LieOnDelete bool
	// DeleteCode, unless nil, is the code by which a delete of many keys refuses one of them; empty if it does not.
	DeleteCode func(key string) string
	// SkipInAnswer, unless nil: whether the answer to a delete of many keys says nothing of this one, and leaves it.
	SkipInAnswer func(key string) bool
	// FolderOrder: listings are in the order of a walk through folders, in which a/b precedes a-b.
	FolderOrder bool
	// IgnoreStartAfter: listings always begin at the front.
	IgnoreStartAfter bool
	// WalkLimit: a listing walks folders from the parts of its start on, and ends after a sixteenth and four keys more than
	// were asked for, though some of those came before the start. MinIO was seen to do so.
	WalkLimit bool
	// PageKeys, unless 0, is how many keys a listing has at most, whatever was asked.
	PageKeys int
	// Skew, unless 0: requests dated further from the server's clock are answered by 403.
	Skew time.Duration
	// WriteEvery, unless 0: PUTs of one key that follow faster are answered by 429.
	WriteEvery time.Duration
}

// RaceTime is how long a writer waits for a rival under BothCreatorsWin and BothWritersWin.
const RaceTime = 200 * time.Millisecond

// SetQuirks sets the ways of the store from now on.
func (s *Server) SetQuirks(q Quirks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quirks = q
}

// refusal is the answer to a request that the quirks, or the credentials asked for, rule out by its headers.
func (s *Server) refusal(r Request) *problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quirks.RefuseChunked && isChunked(r) {
		return &problem{http.StatusNotImplemented, "NotImplemented", "A header you provided implies functionality that is not implemented."}
	}
	if s.quirks.RefuseChecksums && r.Op == OpPut && hasChecksum(r.Header) {
		return &problem{http.StatusBadRequest, "InvalidArgument", "A checksum header is not supported."}
	}
	if p := s.badSigner(r.Header); p != nil {
		return p
	}
	if s.quirks.Skew != 0 {
		dated, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		if err != nil || s.now().Sub(dated).Abs() > s.quirks.Skew {
			return &problem{http.StatusForbidden, "RequestTimeTooSkewed", "The difference between the request time and the server's time is too large."}
		}
	}
	return nil
}

func (s *Server) badSigner(h http.Header) *problem {
	if s.keys == nil {
		return nil
	}
	_, credential, _ := strings.Cut(h.Get("Authorization"), "Credential=")
	id, _, _ := strings.Cut(credential, "/")
	switch {
	case id != s.keys.AccessKeyID:
		return &problem{http.StatusForbidden, "InvalidAccessKeyId", "The access key ID you provided does not exist in our records."}
	case h.Get("X-Amz-Security-Token") != s.keys.SessionToken:
		return &problem{http.StatusBadRequest, "ExpiredToken", "The provided token has expired."}
	}
	return nil
}

func isChunked(r Request) bool {
	return strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") ||
		strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") ||
		r.Header.Get("X-Amz-Trailer") != "" || r.Length < 0
}

func hasChecksum(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "X-Amz-Checksum-") || name == "X-Amz-Sdk-Checksum-Algorithm" || name == "Content-Md5" {
			return true
		}
	}
	return false
}
