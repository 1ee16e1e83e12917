package fakes3

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxBody bounds a request's body.
const maxBody = 512 << 20

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req := newRequest(r)
	s.mu.Lock()
	req.N = len(s.requests) + 1
	s.requests = append(s.requests, req)
	rule, silent := s.rule, req.Conn <= s.frozen
	w.Header().Set("Date", s.now().UTC().Format(http.TimeFormat))
	s.mu.Unlock()
	var fault Fault
	if rule != nil {
		fault = rule(req)
	}
	if silent {
		fault = Fault{BlackHole: true}
	}
	if fault.Early {
		fault.before(r.Context(), w)
		return
	}
	// A body that was read to its end also lets the server see when the client leaves.
	body, err := readBody(req, r.Body)
	if err != nil {
		problem{http.StatusBadRequest, "IncompleteBody", "The body ended before its length."}.write(w)
		return
	}
	if fault.before(r.Context(), w) {
		if fault.Late > 0 {
			s.late.Go(func() {
				time.Sleep(fault.Late)
				s.do(req, body, fault)
			})
		}
		return
	}
	fault.after(r.Context(), w, s.do(req, body, fault))
}

// do does a request and returns the answer.
func (s *Server) do(req Request, body []byte, fault Fault) answer {
	if p := s.refusal(req); p != nil {
		return p.answer()
	}
	if p := badDigest(req.Header.Get("X-Amz-Content-Sha256"), body); p != nil {
		return p.answer()
	}
	seen := req.Op == OpPut && s.race(req)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[req.Bucket]
	switch {
	case req.Op == OpBucket:
		return s.onBucket(req, b)
	case req.Op == OpOther:
		return problem{http.StatusNotImplemented, "NotImplemented", "This store has no such operation."}.answer()
	case b == nil:
		return problem{http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist."}.answer()
	}
	switch req.Op {
	case OpPut:
		if s.quirks.RepeatPuts {
			s.put(req, b, body, seen)
		}
		return s.put(req, b, body, seen)
	case OpDelete:
		return s.delete(req, b)
	case OpDeleteMany:
		return s.deleteMany(b, body)
	case OpList:
		return s.list(req, b)
	default:
		return s.get(req, b, fault.Stale)
	}
}

func (s *Server) onBucket(req Request, b *bucket) answer {
	switch {
	case req.Method == http.MethodPut && b == nil:
		s.buckets[req.Bucket] = newBucket()
	case req.Method == http.MethodPut:
		return problem{http.StatusConflict, "BucketAlreadyOwnedByYou", "The bucket is yours already."}.answer()
	case b == nil:
		return problem{http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist."}.answer()
	case req.Method == http.MethodGet:
		return inXML(struct {
			XMLName xml.Name `xml:"LocationConstraint"`
		}{})
	}
	return answer{status: http.StatusOK}
}

// readBody reads a body, and takes the chunk framing off one that has it.
func readBody(req Request, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(http.MaxBytesReader(nil, io.NopCloser(r), maxBody))
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(req.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return data, nil
	}
	return unchunk(data)
}

// unchunk reads "SIZE-IN-HEX;chunk-signature=...\r\nBYTES\r\n" up to a size of 0. What follows, trailers, is not looked at.
func unchunk(data []byte) ([]byte, error) {
	in := bufio.NewReader(bytes.NewReader(data))
	var out []byte
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		digits, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		size, err := strconv.ParseUint(digits, 16, 31)
		if err != nil {
			return nil, err
		}
		if size == 0 {
			return out, nil
		}
		chunk := make([]byte, min(int(size), len(data)))
		if _, err := io.ReadFull(in, chunk); err != nil {
			return nil, err
		}
		out = append(out, chunk...)
		if end, err := in.ReadString('\n'); err != nil || strings.TrimSpace(end) != "" {
			return nil, errors.New("chunk is longer than its size")
		}
	}
}

// badDigest is the problem with a body that is not the one that was signed. Signatures themselves are not verified.
func badDigest(signed string, body []byte) *problem {
	if len(signed) != 2*sha256.Size {
		return nil // unsigned, or in chunks
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != signed {
		return &problem{http.StatusBadRequest, "XAmzContentSHA256Mismatch", "The body is not the one that was signed."}
	}
	return nil
}

// answer is what is sent back.
type answer struct {
	status   int
	header   http.Header
	body     []byte
	head     bool // the body is not sent
	noLength bool
}

func (a answer) write(ctx context.Context, w http.ResponseWriter, f Fault) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	if a.noLength {
		w.Header().Set("Connection", "close")
		w.Header().Set("Transfer-Encoding", "identity")
	} else {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	if a.head {
		return
	}
	if f.Slow > 0 {
		_ = http.NewResponseController(w).Flush()
		wait(ctx, f.Slow)
	}
	if f.CutAfter > 0 && f.CutAfter < len(a.body) {
		_, _ = w.Write(a.body[:f.CutAfter])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(a.body)
}

// problem is an error document.
type problem struct {
	status        int
	code, message string
}

func (p problem) answer() answer {
	a := inXML(struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}{Code: p.code, Message: p.message})
	a.status = p.status
	return a
}

func (p problem) write(w http.ResponseWriter) {
	p.answer().write(context.Background(), w, Fault{})
}

func inXML(v any) answer {
	body, err := xml.Marshal(v)
	if err != nil {
		panic(err) // the types are our own
	}
	return answer{
		status: http.StatusOK, header: http.Header{"Content-Type": {"application/xml"}},
		body: append([]byte(xml.Header), body...),
	}
}
