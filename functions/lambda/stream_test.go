package lambda

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An answer goes out while it is made: each piece is taken before the next one is written.
func TestStreamSendsWhileItIsMade(t *testing.T) {
	t.Parallel()
	settled := false
	second := make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Set("X-Two", "2")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "first ")
		<-second
		_, _ = io.WriteString(w, "second")
	})
	answer := stream(t.Context(), h, httptest.NewRequest("GET", "/", nil), func() { settled = true })
	if answer.StatusCode != http.StatusAccepted || answer.Headers["X-Two"] != "2" || len(answer.Cookies) != 1 {
		t.Errorf("the answer begins with %+v", answer)
	}
	piece := make([]byte, 100)
	if n, err := answer.Body.Read(piece); string(piece[:n]) != "first " || err != nil {
		t.Fatalf("the first piece is %q, %v", piece[:n], err)
	}
	close(second)
	rest, err := io.ReadAll(answer.Body)
	if string(rest) != "second" || err != nil || !settled {
		t.Errorf("the rest is %q, %v, and settled %t", rest, err, settled)
	}
}

// What was not finished does not look whole.
func TestStreamThatIsCut(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"in the middle": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		},
		"before it begins": func(http.ResponseWriter, *http.Request) { panic("a mistake") },
	} {
		done := false
		answer := stream(t.Context(), h, httptest.NewRequest("GET", "/", nil), func() { done = true })
		text, err := io.ReadAll(answer.Body)
		if !errors.Is(err, errCut) || !done || !strings.HasPrefix("half", string(text)) {
			t.Errorf("%s: %d %q, %v, done %t", name, answer.StatusCode, text, err, done)
		}
	}
}

// A write that nobody takes ends with the time.
func TestStreamThatNobodyTakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cut, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		failed := make(chan error, 1)
		stream(cut, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err := io.WriteString(w, "x")
			failed <- err
		}), httptest.NewRequest("GET", "/", nil), func() {})
		if err := <-failed; !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the write ends with %v", err)
		}
	})
}

// An empty answer is one, and ends at once.
func TestStreamOfNothing(t *testing.T) {
	t.Parallel()
	answer := stream(t.Context(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), httptest.NewRequest("GET", "/", nil), func() {})
	if text, err := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK || len(text) > 0 || err != nil {
		t.Errorf("%d %q, %v", answer.StatusCode, text, err)
	}
}
