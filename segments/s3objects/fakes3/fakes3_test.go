package fakes3_test

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
)

// client sends bare requests to a fake.
type client struct {
	*testing.T
	fake *fakes3.Server
	http *http.Client
}

func newClient(t *testing.T, fake *fakes3.Server) client {
	transport := &http.Transport{DialContext: fake.Dial}
	t.Cleanup(transport.CloseIdleConnections)
	return client{t, fake, &http.Client{Transport: transport}}
}

// do returns the status, the body and the ETag of an answer; status 0 if there was none.
func (c client) do(method, target, body string, header ...string) (int, string, string) {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), method, c.fake.URL+"/"+fakes3.Bucket+"/"+target, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, "", ""
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, string(got), ""
	}
	return resp.StatusCode, string(got), resp.Header.Get("ETag")
}

func (c client) want(status int, method, target, body string, header ...string) string {
	c.Helper()
	got, answer, etag := c.do(method, target, body, header...)
	if got != status {
		c.Errorf("%s %s %q = %d %s, want %d", method, target, header, got, answer, status)
	}
	return etag
}

func inBubble(t *testing.T, test func(c client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newClient(t, fakes3.StartPipe(t))) })
}

// TestConditions: as AWS documents them.
func TestConditions(t *testing.T) {
	t.Parallel()
	inBubble(t, func(c client) {
		const put, get, del = http.MethodPut, http.MethodGet, http.MethodDelete
		c.want(404, put, "k", "0", "If-Match", `"x"`)
		first := c.want(200, put, "k", "1", "If-None-Match", "*")
		c.want(412, put, "k", "2", "If-None-Match", "*")
		c.want(412, put, "k", "2", "If-Match", `"x"`)
		c.want(412, put, "k", "2", "If-Match", strings.Trim(first, `"`)) // the quotes are part of it
		second := c.want(200, put, "k", "2", "If-Match", first)
		c.want(412, put, "k", "3", "If-Match", first)
		c.want(412, get, "k", "", "If-Match", first)
		c.want(200, get, "k", "", "If-Match", second)
		c.want(304, get, "k", "", "If-None-Match", second)
		c.want(412, del, "k", "", "If-Match", first)
		c.want(204, del, "k", "", "If-Match", second)
		c.want(404, get, "k", "")
		if again := c.want(200, put, "k", "1"); again != first {
			c.Errorf("ETag of the same bytes is %s, was %s", again, first)
		}
	})
}

// TestConditionQuirks: what other stores were reported to do instead (BL-094, BL-095).
func TestConditionQuirks(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 412, 404} {
		inBubble(t, func(c client) {
			c.fake.SetQuirks(fakes3.Quirks{MissingIfMatch: status})
			c.want(status, http.MethodPut, "k", "1", "If-Match", `"x"`)
		})
	}
	inBubble(t, func(c client) {
		c.fake.SetQuirks(fakes3.Quirks{IgnoreConditions: true})
		for _, header := range [][]string{{"If-None-Match", "*"}, {"If-None-Match", "*"}, {"If-Match", `"x"`}} {
			c.want(200, http.MethodPut, "k", "1", header...)
		}
	})
	inBubble(t, func(c client) {
		c.fake.SetQuirks(fakes3.Quirks{NoETag: true})
		if etag := c.want(200, http.MethodPut, "k", "1"); etag != "" {
			c.Errorf("ETag is %s", etag)
		}
	})
}

// race has n creators at once, and returns how many won.
func race(c client, key string, n int) (won int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if status, _, _ := c.do(http.MethodPut, key, "1", "If-None-Match", "*"); status == 200 {
				mu.Lock()
				won++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return won
}

func TestRaces(t *testing.T) {
	t.Parallel()
	inBubble(t, func(c client) {
		if won := race(c, "k", 20); won != 1 {
			c.Errorf("%d of 20 creators won", won)
		}
		c.fake.SetQuirks(fakes3.Quirks{BothCreatorsWin: true})
		if won := race(c, "l", 2); won != 2 {
			c.Errorf("%d of 2 creators won where both should", won)
		}
		if won := race(c, "l", 2); won != 0 {
			c.Errorf("%d creators won an object that was there", won)
		}
		start := time.Now()
		if won := race(c, "m", 1); won != 1 || time.Since(start) != fakes3.RaceTime {
			c.Errorf("%d creators without a rival won, after %v", won, time.Since(start))
		}
	})
}

// TestFaults: what the client sees of each fault, and what is stored then.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]struct {
		fault  fakes3.Fault
		status int
		took   time.Duration
		stored bool
	}{
		"none":          {fakes3.Fault{}, 200, 0, true},
		"status":        {fakes3.Fault{Status: 503}, 503, 0, false},
		"early":         {fakes3.Fault{Status: 503, Early: true}, 503, 0, false},
		"delay":         {fakes3.Fault{Delay: time.Second}, 200, time.Second, true},
		"reset":         {fakes3.Fault{Reset: true}, 0, 0, false},
		"lost reply":    {fakes3.Fault{LoseReply: true}, 0, 0, true},
		"black hole":    {fakes3.Fault{BlackHole: true}, 0, 5 * time.Second, false},
		"no reply":      {fakes3.Fault{SwallowReply: true}, 0, 5 * time.Second, true},
		"late, so far":  {fakes3.Fault{Status: 500, Late: time.Minute}, 500, 0, false},
		"late and slow": {fakes3.Fault{Delay: time.Second, Status: 500, Late: time.Minute}, 500, time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(c client) {
				c.http.Timeout = 5 * time.Second
				c.fake.On(fakes3.First(1, fakes3.Is(fakes3.OpPut), f.fault))
				start := time.Now()
				c.want(f.status, http.MethodPut, "k", "data")
				if took := time.Since(start); took != f.took {
					c.Errorf("the answer took %v, want %v", took, f.took)
				}
				if _, stored := c.fake.Object("k"); stored != f.stored {
					c.Errorf("stored is %v", stored)
				}
				time.Sleep(2 * f.fault.Late)
				if _, stored := c.fake.Object("k"); stored != (f.stored || f.fault.Late > 0) {
					c.Errorf("stored is %v after a while", stored)
				}
				c.want(200, http.MethodPut, "k", "data")
			})
		})
	}
}

func TestReadFaults(t *testing.T) {
	t.Parallel()
	inBubble(t, func(c client) {
		c.fake.SetObject("k", []byte("old"))
		c.fake.SetObject("k", []byte("0123456789"))
		c.fake.SetObject("l", []byte("only"))
		c.fake.On(func(r fakes3.Request) fakes3.Fault { return fakes3.Fault{Stale: r.N <= 2, CutAfter: 4 * (r.N / 3)} })
		for i, want := range []struct {
			key    string
			status int
			body   string
		}{{"k", 200, "old"}, {"l", 404, ""}, {"k", 0, "0123"}} {
			status, body, _ := c.do(http.MethodGet, want.key, "")
			if status != want.status || !strings.HasPrefix(body, want.body) {
				c.Errorf("GET %d = %d %s, want %d %s", i, status, body, want.status, want.body)
			}
		}
	})
}

// TestHold: a request whose sender has given up is done all the same when it is let go.
func TestHold(t *testing.T) {
	t.Parallel()
	inBubble(t, func(c client) {
		release := make(chan struct{})
		c.fake.On(fakes3.First(1, fakes3.Any, fakes3.Fault{Hold: release}))
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			c.want(200, http.MethodPut, "k", "data")
		}()
		synctest.Wait()
		if _, stored := c.fake.Object("k"); stored {
			c.Error("stored while held")
		}
		close(release)
		<-answered
	})
}

// TestFrozenConnections stay silent, and new ones do not.
func TestFrozenConnections(t *testing.T) {
	t.Parallel()
	inBubble(t, func(c client) {
		c.http.Timeout = time.Second
		c.want(200, http.MethodPut, "k", "data")
		c.fake.FreezeConnections()
		c.want(0, http.MethodPut, "l", "data")
		c.want(200, http.MethodPut, "m", "data")
		c.fake.CloseConnections()
		c.want(200, http.MethodPut, "n", "data")
		if keys := strings.Join(c.fake.Keys(), " "); keys != "k m n" {
			c.Errorf("stored are %s", keys)
		}
	})
}

// TestListing pages by tokens, and encodes what it must.
func TestListing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(c client) {
		for _, key := range []string{"a/1", "a/2", "a/3 &", "b"} {
			c.fake.SetObject(key, nil)
		}
		_, page, _ := c.do(http.MethodGet, "?list-type=2&prefix=a%2F&max-keys=2&encoding-type=url", "")
		_, rest, _ := strings.Cut(page, "<NextContinuationToken>")
		token, _, ok := strings.Cut(rest, "</NextContinuationToken>")
		if !ok || !strings.Contains(page, "<Key>a%2F2</Key>") || strings.Contains(page, "a%2F3") {
			c.Errorf("page = %s", page)
		}
		_, page, _ = c.do(http.MethodGet, "?list-type=2&prefix=a%2F&encoding-type=url&continuation-token="+url.QueryEscape(token), "")
		if !strings.Contains(page, "<Key>a%2F3+%26</Key>") || !strings.Contains(page, "<IsTruncated>false") ||
			strings.Contains(page, "a%2F2<") || strings.Contains(page, "<Key>b") {
			c.Errorf("page = %s", page)
		}
	})
}

// TestOtherRequests are told to be unknown: nothing is half done.
func TestOtherRequests(t *testing.T) {
	t.Parallel()
	inBubble(t, func(c client) {
		for _, target := range []string{"k?uploads", "k?partNumber=1&uploadId=u"} {
			c.want(501, http.MethodPost, target, "")
		}
		c.want(501, http.MethodPut, "k", "", "X-Amz-Copy-Source", "/b/k")
		c.want(501, http.MethodGet, "?list-type=2&delimiter=%2F", "")
		c.want(400, http.MethodPost, "?delete", "<no xml")
		c.want(400, http.MethodPut, "k", "5\r\nshort", "X-Amz-Content-Sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
		c.want(400, http.MethodPut, "k", "x", "X-Amz-Content-Sha256", strings.Repeat("0", 64))
		if n := len(c.fake.Keys()); n != 0 {
			c.Errorf("%d objects are stored", n)
		}
	})
}

// TestStarts: each way of starting gives a server that ends with its test.
func TestStarts(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) *fakes3.Server{"http": fakes3.Start, "https": fakes3.StartTLS} {
		var address string
		t.Run(name, func(t *testing.T) {
			fake := start(t)
			if !strings.HasPrefix(fake.URL, name+"://127.0.0.1:") || (fake.Roots != nil) != (name == "https") {
				t.Errorf("URL = %s", fake.URL)
			}
			address = strings.TrimPrefix(fake.URL, name+"://")
		})
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			t.Errorf("%s: the server is still there", name)
		}
	}
}
