package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// bounded takes answers of at most so many bytes.
type bounded struct {
	*httptest.ResponseRecorder
	most int
}

func (b bounded) Fits(_ string, body []byte) bool { return len(body) <= b.most }

// serveBounded has a request answered through a bounded writer, by a deadline.
func (r *rig) serveBounded(most int, within time.Duration, path string, headers ...with) *httptest.ResponseRecorder {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	q := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	q.Header.Set("s2-basin", basin)
	for _, h := range headers {
		q.Header.Set(h.name, h.value)
	}
	w := bounded{httptest.NewRecorder(), most}
	r.handler.ServeHTTP(w, q)
	return w.ResponseRecorder
}

func TestBoundedReadEndsEarly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	for i := range 10 {
		r.append("s", fmt.Sprintf(`{"records":[{"body":"%d%s"}]}`, i, strings.Repeat("x", 500)))
	}
	var bodies []string
	for len(bodies) < 10 {
		w := r.serveBounded(2000, time.Minute, fmt.Sprintf("/v1/streams/s/records?seq_num=%d", len(bodies)))
		batch := decode[struct{ Records []record }](t, w.Body.String())
		if w.Code != http.StatusOK || len(batch.Records) == 0 || len(batch.Records) > 3 {
			t.Fatalf("%d with %d records in %d bytes", w.Code, len(batch.Records), w.Body.Len())
		}
		for _, rec := range batch.Records {
			bodies = append(bodies, rec.Body[:1])
		}
	}
	if got := strings.Join(bodies, ""); got != "0123456789" {
		t.Errorf("read in pieces: %s", got)
	}
	w := r.serveBounded(100, time.Minute, "/v1/streams/s/records?seq_num=3")
	if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "record 3 does not fit") {
		t.Errorf("one record that does not fit: %d %s", w.Code, w.Body)
	}
}

// An event stream whose client sees nothing before its end ends behind the first records, so that it can be resumed.
func TestBoundedEventsEndBehindTheFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	for i := range 4 {
		r.append("s", fmt.Sprintf(`{"records":[{"body":"%d%s"}]}`, i, strings.Repeat("x", 500)))
	}
	w := r.serveBounded(1500, time.Minute, "/v1/streams/s/records?seq_num=0", with{"Accept", "text/event-stream"})
	text := w.Body.String()
	if !strings.Contains(text, "id: 1,2,1018\n") || !strings.Contains(text, "event: error\n") || !strings.Contains(text, "server_draining") || strings.Contains(text, "[DONE]") {
		t.Errorf("the first events are\n%s", text)
	}
	w = r.serveBounded(1500, time.Minute, "/v1/streams/s/records?seq_num=0", with{"Accept", "text/event-stream"}, with{"Last-Event-ID", "1,2,1018"})
	if text := w.Body.String(); !strings.Contains(text, "id: 3,2,1018\n") {
		t.Errorf("the next events are\n%s", text)
	}
	w = r.serveBounded(100, time.Minute, "/v1/streams/s/records?seq_num=0", with{"Accept", "text/event-stream"})
	if text := w.Body.String(); !strings.Contains(text, "does not fit") || strings.Contains(text, "event: batch") {
		t.Errorf("an event that does not fit:\n%s", text)
	}
}

// BL-124: what the request's deadline leaves of a wait is waited, and an answer is given before it.
func TestBL124WaitEndsBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newBubbleRig(t)
		r.create("s")
		began := time.Now()
		w := r.serveBounded(1<<20, 10*time.Second, "/v1/streams/s/records?wait=60")
		if took := time.Since(began); w.Code != http.StatusOK || took < 8*time.Second || took >= 10*time.Second {
			t.Errorf("wait=60 with ten seconds left: %d after %s: %s", w.Code, took, w.Body)
		}
		began = time.Now()
		w = r.serveBounded(1<<20, 10*time.Second, "/v1/streams/s/records", with{"Accept", "text/event-stream"})
		text := w.Body.String()
		if took := time.Since(began); took > 10*time.Second || !strings.Contains(text, "event: ping") ||
			!strings.HasSuffix(strings.TrimSpace(text), `}`) || !strings.Contains(text, "server_draining") {
			t.Errorf("an event stream with ten seconds left ended after %s:\n%s", took, text)
		}
	})
}

// limited takes an answer while it is made, up to so many bytes.
type limited struct {
	*httptest.ResponseRecorder
	most int
}

func (l limited) Full() bool { return l.Body.Len() >= l.most }

// An event stream that nearly fills what may be sent ends, and can be resumed.
func TestLimitedEventsEndWhenFull(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	for range 4 {
		r.append("s", `{"records":[{"body":"`+strings.Repeat("x", 900_000)+`"}]}`)
	}
	q := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/streams/s/records?seq_num=0", nil)
	q.Header.Set("s2-basin", basin)
	q.Header.Set("accept", "text/event-stream")
	w := limited{httptest.NewRecorder(), 1_500_000}
	r.handler.ServeHTTP(w, q)
	text := w.Body.String()
	if strings.Count(text, "event: batch\n") != 2 || !strings.Contains(text, "\nid: 1,2,") || !strings.Contains(text, "server_draining") || strings.Contains(text, "[DONE]") {
		t.Errorf("%d events in %d bytes, which end with %q", strings.Count(text, "event: batch\n"), len(text), text[len(text)-100:])
	}
}
