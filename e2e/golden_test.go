package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// goldenWrite makes the golden folder anew:
//
//	go test ./e2e -run TestGoldenDataFolder -golden-write
//
// It is for a new version of the layout, which gets a folder of its own beside the old ones. An old folder is never
// written again: it is there to show that data written by that version can still be read.
var goldenWrite = flag.Bool("golden-write", false, "write testdata/golden-data-v1 anew, with the contents recorded beside it")

const (
	goldenFolder   = "testdata/golden-data-v1"
	goldenContents = "testdata/golden-data-v1.json"
	goldenBasin    = "golden-basin"
	goldenLimit    = 200 << 10 // bytes of the folder; a repository is no place for more
)

// golden is what a folder holds, as a client sees it.
type golden struct {
	Streams map[string]goldenStream `json:"streams"`
	// Deleted are names that were streams once.
	Deleted []string `json:"deleted"`
}

type goldenStream struct {
	Tail   position `json:"tail"`
	Token  string   `json:"fencing_token"`
	Config string   `json:"config"` // as the API writes it
	// First is the number of the first record that can still be read. SHA256 is over the JSON of each record from there,
	// a line each, with everything a record has; Last is the last line, for people.
	First  uint64 `json:"first"`
	SHA256 string `json:"sha256"`
	Last   string `json:"last"`
}

// The folder that an earlier build wrote holds what was recorded when it was written: records inline, in segments and
// below pages, commands, settings, names, tombstones. And it can be written on.
func TestGoldenDataFolder(t *testing.T) {
	t.Parallel()
	if *goldenWrite {
		writeGolden(t)
	}
	content, err := os.ReadFile(goldenContents)
	if err != nil {
		t.Fatal(err)
	}
	var want golden
	if err := json.Unmarshal(content, &want); err != nil {
		t.Fatalf("decode %s: %v", goldenContents, err)
	}
	if size := sizeOf(t, goldenFolder); size > goldenLimit {
		t.Errorf("%s has %d bytes, more than %d", goldenFolder, size, goldenLimit)
	}
	data := dataFolder(t)
	if err := os.CopyFS(data, os.DirFS(goldenFolder)); err != nil {
		t.Fatal(err)
	}
	server := start(t, data)
	c := newClient(server.URL, goldenBasin)
	compareGolden(t, "as it was found", observe(t, c, want), want)

	at := uint64(5_000_000_000_001) // one of the streams requires a time
	for name := range want.Streams {
		c.mustAppend(t, name, appendInput{Records: []newRecord{{Body: "written by a later build", Timestamp: &at}}})
	}
	later := observe(t, c, want)
	for name, s := range later.Streams {
		if s.Tail.SeqNum != want.Streams[name].Tail.SeqNum+1 || !strings.Contains(s.Last, "later build") {
			t.Errorf("after an append %q ends at %d with %s", name, s.Tail.SeqNum, s.Last)
		}
	}
	server.Kill()
	c = c.at(start(t, data).URL)
	compareGolden(t, "written on and killed", observe(t, c, want), later)
}

func compareGolden(t *testing.T, when string, got, want golden) {
	t.Helper()
	if !reflect.DeepEqual(got.Deleted, want.Deleted) || len(got.Streams) != len(want.Streams) {
		t.Errorf("%s: %d streams and deleted %q, want %d and %q", when, len(got.Streams), got.Deleted, len(want.Streams), want.Deleted)
	}
	for name, w := range want.Streams {
		if g := got.Streams[name]; !reflect.DeepEqual(g, w) {
			t.Errorf("%s: stream %q is\n%+v\nwant\n%+v", when, name, g, w)
		}
	}
}

// observe asks a server for everything that golden holds, of the names in like.
func observe(t *testing.T, c *client, like golden) golden {
	t.Helper()
	got := golden{Streams: map[string]goldenStream{}}
	for name := range like.Streams {
		got.Streams[name] = observeStream(t, c, name)
	}
	for _, name := range like.Deleted {
		a := must(t, 404, nil)(c.do(t.Context(), http.MethodGet, records(name)+"/tail", nil))
		if strings.Contains(a.body, `"stream_not_found"`) {
			got.Deleted = append(got.Deleted, name)
		}
	}
	return got
}

func observeStream(t *testing.T, c *client, name string) goldenStream {
	t.Helper()
	var s goldenStream
	var tail struct{ Tail position }
	must(t, 200, &tail)(c.do(t.Context(), http.MethodGet, records(name)+"/tail", nil))
	s.Tail = tail.Tail
	s.Config = must(t, 200, nil)(c.do(t.Context(), http.MethodGet, "/v1/streams/"+url.PathEscape(name), nil)).body
	s.Token = observeToken(t, c, name)
	digest := sha256.New()
	for next, first := uint64(0), true; next < s.Tail.SeqNum; first = false {
		var batch struct{ Records []record }
		must(t, 200, &batch)(c.do(t.Context(), http.MethodGet, fmt.Sprintf("%s?seq_num=%d", records(name), next), nil,
			"s2-format", "base64"))
		if len(batch.Records) == 0 {
			t.Fatalf("a read of %q at %d brought nothing", name, next)
		}
		if first {
			s.First, next = batch.Records[0].SeqNum, batch.Records[0].SeqNum
		}
		for _, r := range batch.Records {
			if r.SeqNum != next {
				t.Fatalf("record %d of %q came where %d belongs", r.SeqNum, name, next)
			}
			next++
			line := fmt.Sprintf("%d %d %q %s", r.SeqNum, r.Timestamp, r.Headers, r.Body)
			fmt.Fprintln(digest, line)
			plain, _ := base64.StdEncoding.DecodeString(r.Body)
			s.Last = fmt.Sprintf("%d %d %q %.60q", r.SeqNum, r.Timestamp, r.Headers, plain)
		}
	}
	s.SHA256 = hex.EncodeToString(digest.Sum(nil))
	return s
}

// observeToken learns a stream's fencing token from a refusal: by a token that nobody uses, and a number nobody expects,
// should the token be that one after all.
func observeToken(t *testing.T, c *client, name string) string {
	t.Helper()
	token, match := "\x01 no token of anyone", uint64(1)<<60
	a, err := c.append(t.Context(), name, appendInput{Records: bodies("never stored"), FencingToken: &token, MatchSeqNum: &match})
	var refusal struct {
		Token *string `json:"fencing_token_mismatch"`
	}
	if err != nil || a.status != 412 || json.Unmarshal([]byte(a.body), &refusal) != nil || refusal.Token == nil {
		t.Fatalf("an append to %q with a foreign token: %v, %v", name, a, err)
	}
	return *refusal.Token
}

// writeGolden makes the folder by the API alone, and records what a client sees in it.
func writeGolden(t *testing.T) {
	t.Helper()
	data := dataFolder(t)
	// Without a delay, what is trimmed is gone by the time the contents are recorded.
	server := start(t, data, "--trim-delay=0s")
	c := newClient(server.URL, goldenBasin)
	forever := map[string]any{"retention_policy": map[string]any{"infinite": map[string]any{}}}
	must(t, 201, nil)(c.do(t.Context(), http.MethodPost, "/v1/basins", map[string]any{
		"basin": goldenBasin, "config": map[string]any{"default_stream_config": forever}}))
	names := []string{"inline", "segments", "pages", "commands", "empty", "a/b .. \u00e9\u65e5\u672c%"}
	for _, name := range append(names, "deleted") {
		c.createStream(t, name)
	}
	must(t, 200, nil)(c.do(t.Context(), http.MethodPatch, "/v1/streams/commands", map[string]any{
		"timestamping": map[string]any{"mode": "client-require", "uncapped": true}, "storage_class": "standard"}))

	c.mustAppend(t, "inline", appendInput{Records: []newRecord{
		{Body: "with headers", Headers: [][2]string{{"k", "v"}, {"k", ""}}}, {Body: ""}, {Body: "\u00e9 \u65e5\u672c \u0000"}}})
	for i := range 3 {
		c.mustAppend(t, "segments", appendInput{Records: bodies(strings.Repeat(fmt.Sprintf("segment %d ", i), 3000), "behind it")})
	}
	for i := range 1500 { // an entry each: enough moves for a page above the first level
		c.mustAppend(t, "pages", appendInput{Records: bodies(fmt.Sprintf("line %d", i))})
	}
	for i := range uint64(8) {
		at := 4_000_000_000_000 + 1000*i
		c.mustAppend(t, "commands", appendInput{Records: []newRecord{{Body: "one of eight", Timestamp: &at}}})
	}
	c.mustCommand(t, "commands", "fence", []byte("golden-token"))
	c.mustCommand(t, "commands", "trim", []byte{0, 0, 0, 0, 0, 0, 0, 5})
	c.mustAppend(t, names[5], appendInput{Records: bodies("under a long name")})
	must(t, 202, nil)(c.do(t.Context(), http.MethodDelete, "/v1/streams/deleted", nil))
	eventually(t, "the name of a deleted stream free", func() bool {
		a, err := c.do(t.Context(), http.MethodGet, records("deleted")+"/tail", nil)
		return err == nil && a.status == 404
	})
	c.mustAppend(t, "inline", appendInput{Records: bodies("the last")})
	// A second start turns the log of the database into a table, which is smaller; then some is written to the log again.
	stop(t, server)
	server = start(t, data, "--trim-delay=0s")
	c = c.at(server.URL)
	c.mustAppend(t, "pages", appendInput{Records: bodies("in the log")})
	like := golden{Streams: map[string]goldenStream{}, Deleted: []string{"deleted"}}
	for _, name := range names {
		like.Streams[name] = goldenStream{}
	}
	saveGolden(t, observe(t, c, like))
	stop(t, server)
	if err := os.RemoveAll(goldenFolder); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(goldenFolder, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
}

// mustCommand appends a command record. Its time is far ahead, since the stream wants one and it may not go back.
func (c *client) mustCommand(t *testing.T, stream, command string, body []byte) {
	t.Helper()
	at := uint64(5_000_000_000_000)
	in := appendInput{Records: []newRecord{{
		Headers:   [][2]string{{"", base64.StdEncoding.EncodeToString([]byte(command))}},
		Body:      base64.StdEncoding.EncodeToString(body),
		Timestamp: &at,
	}}}
	must(t, 200, nil)(c.do(t.Context(), http.MethodPost, records(stream), in, "s2-format", "base64"))
}

func saveGolden(t *testing.T, g golden) {
	t.Helper()
	content, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(goldenContents), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(goldenContents, append(content, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func sizeOf(t *testing.T, dir string) int64 {
	t.Helper()
	var size int64
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}
