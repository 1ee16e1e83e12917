package e2e

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// trim appends a command record that trims the feed to a sequence number.
func (w *feedWriter) trim(t *testing.T, to uint64) {
	t.Helper()
	encoded := base64.StdEncoding.EncodeToString
	in := appendInput{Records: []newRecord{{
		Headers: [][2]string{{"", encoded([]byte("trim"))}}, Body: encoded(binary.BigEndian.AppendUint64(nil, to)),
	}}}
	must(t, 200, nil)(w.c.do(t.Context(), http.MethodPost, records(feedName), in, "s2-format", "base64"))
	w.next++
}

// oldSegments are the segments in a data folder.
func oldSegments(t *testing.T, data string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(data, "objects", "basins", "*", "segments", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// BL-084: a slow follower reads from the start while the stream is trimmed ahead of it, again and again, and what was
// trimmed is collected. Its connection lives, numbers only jump forward, over what is gone, and each record is right.
func TestBL084TrimmedAheadOfASlowReader(t *testing.T) {
	t.Parallel()
	rounds := size(t, "TRIMS", 6, 30)
	data := dataFolder(t)
	// Hardly any cache, and none of the trimmed data stays readable: the reader meets what is really gone.
	server := start(t, data, "--trim-delay=0s", "--collect-grace=0s", "--upkeep-interval=1s", "--cache-bytes=1MiB")
	w := newFeed(t, newClient(server.URL, "trimmed-ahead"), 1200)
	w.append(t, 1000)
	stream := slowEvents(t, w)
	var next uint64
	jumps := 0
	read := func() {
		t.Helper()
		e, err := stream.next()
		if err != nil || e.name == "error" {
			t.Fatalf("at record %d: %s event %s, %v", next, e.name, e.data, err)
		}
		if e.name != "batch" {
			return
		}
		var batch struct{ Records []record }
		if err := json.Unmarshal([]byte(e.data), &batch); err != nil {
			t.Fatal(err)
		}
		for _, r := range batch.Records {
			switch {
			case r.SeqNum < next:
				t.Fatalf("record %d came where %d or a later one belongs", r.SeqNum, next)
			case r.SeqNum > next:
				jumps++
			case len(r.Headers) == 0 && r.Body != w.body(r.SeqNum):
				t.Fatalf("record %d is %.60q", r.SeqNum, r.Body)
			}
			next = r.SeqNum + 1
		}
	}
	for range rounds {
		for range 14 { // 13 MiB, more than the system buffers and a follower may lag behind in memory
			w.append(t, 1000)
		}
		segments := oldSegments(t, data)
		w.trim(t, w.next-500)
		eventually(t, "the collection of what was trimmed", func() bool {
			_, err := os.Stat(segments[0])
			return os.IsNotExist(err)
		})
		for before := jumps; jumps == before && next < w.next; {
			read()
		}
	}
	for next < w.next {
		read()
	}
	if jumps < rounds {
		t.Errorf("%d trims ahead of the reader made it jump %d times", rounds, jumps)
	}
	t.Logf("%d trims ahead of the reader, %d jumps, up to record %d", rounds, jumps, next)
}

// slowEvents follows the feed from its start through small buffers. Its user reads slowly.
func slowEvents(t *testing.T, w *feedWriter) *events {
	t.Helper()
	slow := &feedFollower{feed: &w.feed, stall: func() {}}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: slow.dial}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("%s%s?seq_num=0", w.c.url, records(feedName)), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("s2-basin", w.c.basin)
	request.Header.Set("accept", "text/event-stream")
	response, err := client.Do(request)
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("follow: %v, %v", response, err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return newEvents(response.Body)
}
