package api_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/functions/api"
	"github.com/tailrace-streams/tailrace/tenancy"
)

// newDomainRig is a rig with basins mine-basin and their-basin, each with a stream s that has a record with its basin's name.
func newDomainRig(t testing.TB) *rig {
	r := newRig(t, change{api: func(o *api.Options) { o.Domain = "streams.example.com" }})
	for _, name := range []string{"mine-basin", "their-basin"} {
		r.want(r.do("PUT", "/v1/basins/"+name, nil), http.StatusCreated, "")
		in := with{"S2-Basin", name}
		r.want(r.do("POST", "/v1/streams", []byte(`{"stream":"s"}`), in), http.StatusCreated, "")
		r.want(r.append("s", `{"records":[{"body":"of `+name+`"}]}`, in), http.StatusOK, "")
	}
	return r
}

// to is a read of the stream s by host, with what s2-basin says; "-" leaves it out.
func (r *rig) to(host, basin, path string, headers ...with) answer {
	r.t.Helper()
	q := r.request(context.Background(), "GET", path, nil, headers...)
	q.Host = host
	q.Header.Del("S2-Basin")
	if basin != "-" {
		q.Header["S2-Basin"] = []string{basin}
	}
	return r.send(q)
}

const readS = "/v1/streams/s/records?seq_num=0"

func TestBasinsByHost(t *testing.T) {
	t.Parallel()
	r := newDomainRig(t)
	for _, c := range []struct {
		host, header string
		status       int
		says         string
	}{
		{"mine-basin.streams.example.com", "-", 200, "of mine-basin"},
		{"their-basin.streams.example.com:8443", "-", 200, "of their-basin"},
		{"MINE-Basin.Streams.Example.COM", "-", 200, "of mine-basin"},
		{"mine-basin.streams.example.com.", "-", 200, "of mine-basin"},
		{"mine-basin.streams.example.com.:80", "-", 200, "of mine-basin"},
		{"mine-basin.streams.example.com", "mine-basin", 200, "of mine-basin"},
		{"mine-basin.streams.example.com", " mine-basin ", 200, "of mine-basin"},
		{"mine-basin.streams.example.com", "their-basin", 400, "bad_header"},
		{"mine-basin.streams.example.com", "MINE-BASIN", 400, "bad_header"},
		{"mine-basin.streams.example.com", "", 400, "bad_header"},
		{"nobodys-basin.streams.example.com", "-", 404, "_not_found"},
		// More than a label, or none that is a basin's name.
		{"x.mine-basin.streams.example.com", "-", 400, "bad_header"},
		{"mine-basin.their-basin.streams.example.com", "mine-basin", 400, "bad_header"},
		{"short.streams.example.com", "mine-basin", 400, "bad_header"},
		{".streams.example.com", "mine-basin", 400, "bad_header"},
		{"mine_basin.streams.example.com", "mine-basin", 400, "bad_header"},
		{"mine-basin..streams.example.com", "mine-basin", 400, "bad_header"},
		{"mine-basin.streams.example.com..", "mine-basin", 200, "of mine-basin"}, // not below the domain
		// The domain itself and other hosts say nothing of a basin.
		{"streams.example.com", "their-basin", 200, "of their-basin"},
		{"streams.example.com", "-", 400, "bad_header"},
		{"other.example.com", "their-basin", 200, "of their-basin"},
		{"mine-basin.other.example.com", "their-basin", 200, "of their-basin"},
		{"mine-basin.notstreams.example.com", "-", 400, "bad_header"},
		{"mine-basinstreams.example.com", "-", 400, "bad_header"},
		{"mine-basin.streams.example.com.evil.org", "their-basin", 200, "of their-basin"},
		{"127.0.0.1:80", "mine-basin", 200, "of mine-basin"},
		{"[::1]:80", "mine-basin", 200, "of mine-basin"},
	} {
		a := r.to(c.host, c.header, readS)
		if a.status != c.status || !strings.Contains(a.body, c.says) {
			t.Errorf("host %q, s2-basin %q: %d %s", c.host, c.header, a.status, a.body)
		}
	}
}

// What a proxy says that the client had said is never believed, and neither is a second host.
func TestForwardedHostsAreNotRead(t *testing.T) {
	t.Parallel()
	r := newDomainRig(t)
	for _, name := range []string{"X-Forwarded-Host", "X-Host", "X-Original-Host", "X-Forwarded-Server", "Forwarded", "X-Rewrite-Url", "X-Original-Url"} {
		value := "their-basin.streams.example.com"
		if name == "Forwarded" {
			value = "host=" + value
		}
		a := r.to("mine-basin.streams.example.com", "-", readS, with{name, value})
		if a.status != 200 || !strings.Contains(a.body, "of mine-basin") {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		if a := r.to("streams.example.com", "-", readS, with{name, value}); a.code() != "bad_header" {
			t.Errorf("%s chose a basin: %d %s", name, a.status, a.body)
		}
	}
}

// The host of a basin has its streams and nothing else of the account; what is nobody's is everywhere.
func TestAHostOfABasinHasStreamsAlone(t *testing.T) {
	t.Parallel()
	r := newDomainRig(t)
	for _, path := range []string{"/v1/basins", "/v1/basins/mine-basin", "/v1/access-tokens", "/v1/locations", "/v1/locations/default", "/v1/metrics/mine-basin?set=storage"} {
		r.want(r.to("mine-basin.streams.example.com", "-", path), http.StatusBadRequest, "bad_path")
		if a := r.to("streams.example.com", "-", path); a.code() == "bad_path" {
			t.Errorf("%s is not at the domain: %d %s", path, a.status, a.body)
		}
	}
	for _, path := range []string{"/health", "/ready", "/metrics"} {
		r.want(r.to("mine-basin.streams.example.com", "-", path), http.StatusOK, "")
		r.want(r.to("x.y.streams.example.com", "-", path), http.StatusOK, "")
	}
	if a := r.to("mine-basin.streams.example.com", "-", "/v1/streams"); a.status != 200 || !strings.Contains(a.body, `"name":"s"`) {
		t.Errorf("listing: %d %s", a.status, a.body)
	}
	r.want(r.to("mine-basin.streams.example.com", "-", "/v1/nothing"), http.StatusNotFound, "")
}

// Without a domain a host says nothing, whatever it looks like.
func TestHostsWithoutADomain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	r.want(r.to("mine-basin.streams.example.com", basin, readS), http.StatusRequestedRangeNotSatisfiable, "")
	r.want(r.to(basin+".streams.example.com", "-", readS), http.StatusBadRequest, "bad_header")
}

// A target that names a host makes net/http drop the header Host unseen, so with a domain it is refused.
func TestAbsoluteTargetsCrossNoBasins(t *testing.T) {
	t.Parallel()
	r := newDomainRig(t)
	for _, c := range []struct{ target, host, says string }{
		{readS, "mine-basin.streams.example.com", "of mine-basin"},
		{"http://their-basin.streams.example.com" + readS, "mine-basin.streams.example.com", "bad_header"},
		{"http://mine-basin.streams.example.com" + readS, "mine-basin.streams.example.com", "bad_header"},
		{"http://elsewhere.org" + readS, "mine-basin.streams.example.com", "bad_header"},
		{"//their-basin.streams.example.com" + readS, "mine-basin.streams.example.com", "404 Not Found"},
		{readS, "mine-basin.streams.example.com\r\nHost: their-basin.streams.example.com", "400 Bad Request"},
		{readS, "mine-basin.streams.example.com, their-basin.streams.example.com", "400 Bad Request"},
		{readS, "x@mine-basin.streams.example.com", "400 Bad Request"},
		{readS, "mine-basin.streams.example.com:x", "bad_header"},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", c.target, c.host)
		got, err := io.ReadAll(bufio.NewReader(conn))
		conn.Close()
		if err != nil || !bytes.Contains(got, []byte(c.says)) || bytes.Contains(got, []byte("of their-basin")) {
			t.Errorf("%s at %s: %v\n%s", c.target, c.host, err, got)
		}
	}
}

// Over HTTP/2 a header host beside :authority must say the same.
func TestAuthorityAndHostAgree(t *testing.T) {
	t.Parallel()
	r := newDomainRig(t)
	const mine, theirs = "mine-basin.streams.example.com", "their-basin.streams.example.com"
	for _, c := range []struct{ authority, host, says string }{
		{mine, "", "of mine-basin"}, {"", mine, "of mine-basin"}, {mine, mine, "of mine-basin"}, {mine, "MINE-basin.streams.example.com:80", "of mine-basin"},
		{mine, theirs, "bad_header"}, {theirs, mine, "bad_header"}, {"streams.example.com", theirs, "bad_header"}, {"elsewhere.org", theirs, "bad_header"},
	} {
		if got := rawHTTP2(t, r, c.authority, c.host); !strings.Contains(got, c.says) || c.host != c.authority && strings.Contains(got, "of their-basin") {
			t.Errorf(":authority %q, host %q: %s", c.authority, c.host, got)
		}
	}
}

// rawHTTP2 reads the stream s with exactly these two headers, of which an empty one is left out, and returns the body. No
// client library sends both.
func rawHTTP2(t *testing.T, r *rig, authority, host string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var block []byte // literal fields, without index and without Huffman's code (RFC 7541 6.2.2)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", readS}, {":authority", authority}, {"host", host}} {
		if f[1] != "" {
			block = append(append(block, 0, byte(len(f[0]))), f[0]...)
			block = append(append(block, byte(len(f[1]))), f[1]...)
		}
	}
	const data, headers, reset, settings, goAway = 0, 1, 3, 4, 7
	const endStream, endHeaders = 1, 4
	out := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	out = append(out, 0, 0, 0, settings, 0, 0, 0, 0, 0)
	out = append(out, 0, 0, byte(len(block)), headers, endStream|endHeaders, 0, 0, 0, 1)
	if _, err := conn.Write(append(out, block...)); err != nil {
		t.Fatal(err)
	}
	var body strings.Builder
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(conn, head); err != nil {
			t.Fatal(err)
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(conn, payload); err != nil {
			t.Fatal(err)
		}
		switch kind, flags := head[3], head[4]; kind {
		case data:
			if body.Write(payload); flags&endStream != 0 {
				return body.String()
			}
		case reset, goAway:
			return fmt.Sprintf("frame %d: %x", kind, payload)
		}
	}
}

func FuzzHost(f *testing.F) {
	f.Add("mine-basin.streams.example.com", "their-basin")
	f.Add("mine-basin.streams.example.com.:80", "mine-basin")
	f.Add("[::1]:8080", "")
	r := newHandler(f, change{api: func(o *api.Options) { o.Domain = "streams.example.com" }})
	for _, name := range []string{"mine-basin", "their-basin"} {
		if _, _, err := r.names.CreateBasin(context.Background(), name, "", tenancy.BasinConfig{}, ""); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, host, header string) {
		q, err := http.NewRequest("GET", "http://x/v1/streams", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Host, q.Header["S2-Basin"] = host, []string{header}
		q.RequestURI = "/v1/streams"
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, q)
		if w.Code == http.StatusOK && strings.TrimSpace(header) != "mine-basin" && strings.TrimSpace(header) != "their-basin" {
			t.Errorf("host %q with s2-basin %q was served", host, header)
		}
		if w.Code == http.StatusOK && strings.HasSuffix(strings.ToLower(host), ".streams.example.com") &&
			!strings.EqualFold(host, strings.TrimSpace(header)+".streams.example.com") {
			t.Errorf("host %q crossed to s2-basin %q", host, header)
		}
	})
}
