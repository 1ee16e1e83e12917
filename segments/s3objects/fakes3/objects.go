package fakes3

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

type bucket struct{ objects map[string]*object }

type object struct {
	data     []byte // never changed
	etag     string // in its quotes
	modified time.Time
	before   *object // what the last write replaced, without its own past
}

func newBucket() *bucket { return &bucket{objects: map[string]*object{}} }

func (b *bucket) names() iter.Seq[string] { return maps.Keys(b.objects) }

func (b *bucket) put(key string, data []byte, now time.Time, oneETag bool) *object {
	// S3's ETag of an object put in one piece: the same bytes have the same one again.
	sum := md5.Sum(data)
	o := &object{data: data, etag: `"` + hex.EncodeToString(sum[:]) + `"`, modified: now}
	if oneETag {
		o.etag = `"the-same"`
	}
	if old := b.objects[key]; old != nil {
		before := *old
		before.before = nil
		o.before = &before
	}
	b.objects[key] = o
	return o
}

// race holds a writer until another comes for the same state of a key, under BothCreatorsWin or BothWritersWin, and reports
// whether he has seen that his condition holds: that is all the store will look at.
func (s *Server) race(req Request) (seen bool) {
	s.mu.Lock()
	b := s.buckets[req.Bucket]
	if b == nil || !s.mayTie(req, b.objects[req.Key]) {
		s.mu.Unlock()
		return false
	}
	if rival, ok := s.racers[req.Key]; ok {
		delete(s.racers, req.Key)
		s.mu.Unlock()
		rival <- struct{}{}
		return true
	}
	met := make(chan struct{}, 1)
	s.racers[req.Key] = met
	s.mu.Unlock()
	timer := time.NewTimer(RaceTime)
	defer timer.Stop()
	select {
	case <-met:
	case <-timer.C:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.racers[req.Key] == met {
			delete(s.racers, req.Key)
		}
	}
	return true
}

// mayTie reports whether a PUT is one of those that win beside each other, and its condition holds in the state that is there.
func (s *Server) mayTie(req Request, old *object) bool {
	if old == nil {
		return s.quirks.BothCreatorsWin && req.Header.Get("If-None-Match") == "*"
	}
	return s.quirks.BothWritersWin && req.Header.Get("If-Match") == old.etag
}

// put stores an object, unless a condition fails. seen: an earlier look has shown that there was none.
func (s *Server) put(req Request, b *bucket, body []byte, seen bool) answer {
	old := b.objects[req.Key]
	if req.Conditional() && s.conflicts[req.Key] < s.quirks.Conflicts {
		s.conflicts[req.Key]++
		return problem{http.StatusConflict, "ConditionalRequestConflict", "Another request for the key was under way."}.answer()
	}
	if p := s.putCondition(req, old, seen); p != nil {
		return p.answer()
	}
	delete(s.conflicts, req.Key)
	if s.quirks.WriteEvery > 0 && old != nil && s.now().Sub(old.modified) < s.quirks.WriteEvery {
		return problem{http.StatusTooManyRequests, "SlowDown", "The object is written too often."}.answer()
	}
	return answer{status: http.StatusOK, header: s.etag(b.put(req.Key, body, s.now(), s.quirks.OneETag))}
}

// putCondition is the problem with a PUT in the state that is there, if it names a condition.
func (s *Server) putCondition(req Request, old *object, seen bool) *problem {
	failed := &problem{http.StatusPreconditionFailed, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold."}
	match, none := req.Header.Get("If-Match"), req.Header.Get("If-None-Match")
	switch {
	case s.quirks.IgnoreConditions, match != "" && s.quirks.IgnoreIfMatch, none != "" && s.quirks.IgnoreIfNoneMatch, seen:
	case none == "*" && old != nil:
		return failed
	case match != "" && old == nil:
		switch s.quirks.MissingIfMatch {
		case http.StatusOK:
		case http.StatusPreconditionFailed:
			return failed
		default:
			return &problem{http.StatusNotFound, "NoSuchKey", "The specified key does not exist."}
		}
	case match != "" && match != "*" && match != old.etag:
		return failed
	}
	return nil
}

func (s *Server) get(req Request, b *bucket, stale bool) answer {
	o := b.objects[req.Key]
	if o != nil && (stale || s.quirks.StaleGets && o.before != nil) {
		o = o.before
	}
	if o == nil {
		return s.missing(req)
	}
	header := s.etag(o)
	header.Set("Last-Modified", o.modified.UTC().Format(http.TimeFormat))
	header.Set("Accept-Ranges", "bytes")
	header.Set("Content-Type", "application/octet-stream")
	if match := req.Header.Get("If-Match"); match != "" && match != "*" && match != o.etag && !s.quirks.IgnoreConditions {
		return problem{http.StatusPreconditionFailed, "PreconditionFailed", "The ETag is another."}.answer()
	}
	if none := req.Header.Get("If-None-Match"); none == o.etag && !s.quirks.IgnoreConditions {
		return answer{status: http.StatusNotModified, header: header, head: true}
	}
	a := answer{status: http.StatusOK, header: header, body: o.data, head: req.Op == OpHead, noLength: s.quirks.NoLength}
	if spec := req.Header.Get("Range"); spec != "" && !s.quirks.IgnoreRange {
		first, last, ok := rangeOf(spec, int64(len(o.data)))
		if !ok {
			return problem{http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "The requested range is not satisfiable."}.answer()
		}
		a.status, a.body = http.StatusPartialContent, o.data[first:last+1]
		header.Set("Content-Range", "bytes "+strconv.FormatInt(first, 10)+"-"+strconv.FormatInt(last, 10)+
			"/"+strconv.Itoa(len(o.data)))
	}
	return a
}

func (s *Server) missing(req Request) answer {
	switch {
	case s.quirks.PlainNotFound:
		return answer{
			status: http.StatusNotFound, header: http.Header{"Content-Type": {"text/html"}}, body: []byte("<h1>Not here</h1>"),
		}
	case s.quirks.HideMissing:
		return problem{http.StatusForbidden, "AccessDenied", "Access Denied"}.answer()
	}
	a := problem{http.StatusNotFound, "NoSuchKey", "The specified key does not exist."}.answer()
	a.head = req.Op == OpHead
	return a
}

// rangeOf reads a Range header for an object of a size; both ends are included. It reports false if nothing is in it.
func rangeOf(spec string, size int64) (first, last int64, ok bool) {
	ends, ok := strings.CutPrefix(spec, "bytes=")
	from, to, ok2 := strings.Cut(ends, "-")
	first, err := strconv.ParseInt(from, 10, 64)
	last = size - 1
	if to != "" {
		var err2 error
		if last, err2 = strconv.ParseInt(to, 10, 64); err2 != nil {
			return 0, 0, false
		}
		last = min(last, size-1)
	}
	return first, last, ok && ok2 && err == nil && first <= last
}

func (s *Server) etag(o *object) http.Header {
	switch {
	case s.quirks.NoETag:
		return http.Header{}
	case s.quirks.WeakETags:
		return http.Header{"Etag": {"W/" + o.etag}}
	}
	return http.Header{"Etag": {o.etag}}
}

func (s *Server) delete(req Request, b *bucket) answer {
	o := b.objects[req.Key]
	if match := req.Header.Get("If-Match"); match != "" && !s.quirks.IgnoreConditions && (o == nil || match != "*" && match != o.etag) {
		return problem{http.StatusPreconditionFailed, "PreconditionFailed", "The ETag is another."}.answer()
	}
	delete(b.objects, req.Key)
	return answer{status: http.StatusNoContent}
}

type deleteRequest struct {
	XMLName xml.Name `xml:"Delete"`
	Quiet   bool
	Objects []struct{ Key string } `xml:"Object"`
}

type deleteResult struct {
	XMLName xml.Name `xml:"DeleteResult"`
	Deleted []struct{ Key string }
	Errors  []deleteError `xml:"Error"`
}

type deleteError struct{ Key, Code, Message string }

func (s *Server) deleteMany(b *bucket, body []byte) answer {
	var asked deleteRequest
	if s.quirks.NoDeleteMany {
		return problem{http.StatusNotImplemented, "NotImplemented", "This store deletes one object at a time."}.answer()
	}
	if err := xml.Unmarshal(body, &asked); err != nil || len(asked.Objects) > 1000 {
		return problem{http.StatusBadRequest, "MalformedXML", "The XML you provided was not well-formed."}.answer()
	}
	var result deleteResult
	for _, o := range asked.Objects {
		if s.quirks.SkipInAnswer != nil && s.quirks.SkipInAnswer(o.Key) {
			continue
		}
		if s.quirks.DeleteCode != nil {
			if code := s.quirks.DeleteCode(o.Key); code != "" {
				result.Errors = append(result.Errors, deleteError{o.Key, code, "as the test asked"})
				continue
			}
		}
		if !s.quirks.LieOnDelete {
			delete(b.objects, o.Key)
		}
		if !asked.Quiet {
			result.Deleted = append(result.Deleted, o)
		}
	}
	return inXML(result)
}

// sorted are the keys in the order of a listing.
func (s *Server) sorted(b *bucket) []string {
	keys := slices.Sorted(b.names())
	if s.quirks.FolderOrder {
		walk := strings.NewReplacer("/", "\x00")
		slices.SortFunc(keys, func(x, y string) int { return strings.Compare(walk.Replace(x), walk.Replace(y)) })
	}
	return keys
}
