package cli

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace-streams/tailrace/client"
)

func readAll(text string, f format) (records []client.AppendRecord, err error) {
	r := &recordReader{lines: bufio.NewReaderSize(strings.NewReader(text), 16), format: f}
	for {
		record, _, err := r.next()
		if err == io.EOF {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		records = append(records, record)
	}
}

func TestTextIsLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                         nil,
		"\n":                       {""},
		"a":                        {"a"},
		"a\n":                      {"a"},
		"a\r\n\nb":                 {"a\r", "", "b"},
		"longer than the buffer\n": {"longer than the buffer"},
		"\x00\xff\n":               {"\x00\xff"},
	} {
		records, err := readAll(text, formatText)
		var got []string
		for _, r := range records {
			got = append(got, string(r.Body))
		}
		if err != nil || strings.Join(got, "|") != strings.Join(want, "|") || len(got) != len(want) {
			t.Errorf("%q has the records %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestBadLinesAreNamed(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"{}\nx\n":                           "line 2: this is not a JSON value",
		"{}\n[]\n":                          "line 2",
		"{\"body\":5}":                      "line 1",
		"{}\n{}\n{\"headers\":[[\"a\"]]}\n": "line 3",
		"\n":                                "line 1",
		"{},{}\n":                           "line 1",
		"{\"body\":\"x\"}],\"match_seq_num\":7,\"records\":[{}": "line 1",
	} {
		if _, err := readAll(text, formatJSON); !errors.Is(err, errUsage) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want one that says %q", text, err, says)
		}
	}
	if _, err := readAll(`{"body":"*"}`, formatBase64); !errors.Is(err, errUsage) {
		t.Errorf("bad base64: %v", err)
	}
	if _, err := readAll(strings.Repeat("x", client.MaxBatchBytes), formatText); !errors.Is(err, errUsage) {
		t.Errorf("too large a record: %v", err)
	}
	if _, err := readAll(strings.Repeat("x", lineMax+1), formatText); !errors.Is(err, errUsage) {
		t.Errorf("too long a line: %v", err)
	}
}

// What is read in base64 is appended the same, whatever bytes it has.
func TestRecordsSurviveFiles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 0, 40)
		record := client.Record{SeqNum: rapid.Uint64().Draw(t, "seq"), Timestamp: rapid.Uint64().Draw(t, "time"), Body: data.Draw(t, "body")}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			record.Headers = append(record.Headers, client.Header{Name: append([]byte("n"), data.Draw(t, "name")...), Value: data.Draw(t, "value")})
		}
		var file bytes.Buffer
		w := &recordWriter{out: bufio.NewWriter(&file), format: formatBase64, commands: io.Discard}
		if _, err := w.write(&record); err != nil {
			t.Fatal(err)
		}
		_ = w.out.Flush()
		got, err := readAll(file.String(), formatBase64)
		if err != nil || len(got) != 1 {
			t.Fatalf("%q is read as %d records, %v", file.String(), len(got), err)
		}
		if !bytes.Equal(got[0].Body, record.Body) || !got[0].HasTimestamp || got[0].Timestamp != record.Timestamp || len(got[0].Headers) != len(record.Headers) {
			t.Fatalf("%q is read as %+v", file.String(), got[0])
		}
		for i, h := range got[0].Headers {
			if !bytes.Equal(h.Name, record.Headers[i].Name) || !bytes.Equal(h.Value, record.Headers[i].Value) {
				t.Fatalf("header %d of %q is %+v", i, file.String(), h)
			}
		}
	})
}

// Text has no place for a command: it is told beside, and not among the records.
func TestTextTellsCommandsBeside(t *testing.T) {
	t.Parallel()
	var out, beside bytes.Buffer
	w := &recordWriter{out: bufio.NewWriter(&out), format: formatText, commands: &beside}
	fence := client.FenceCommand("t1")
	for _, r := range []client.Record{{SeqNum: 4, Headers: fence.Headers, Body: fence.Body}, {SeqNum: 5, Body: []byte("b")}} {
		if _, err := w.write(&r); err != nil {
			t.Fatal(err)
		}
	}
	_ = w.out.Flush()
	if out.String() != "b\n" || beside.String() != "4: command \"fence\" \"t1\"\n" {
		t.Errorf("printed %q and beside it %q", out.String(), beside.String())
	}
}

func FuzzRecordLines(f *testing.F) {
	f.Add("{\"body\":\"x\",\"headers\":[[\"a\",\"b\"]]}\n{}", uint8(1))
	f.Add("a\nb", uint8(0))
	f.Add("{\"body\":\"AA==\"}", uint8(2))
	f.Fuzz(func(t *testing.T, text string, kind uint8) {
		form := []format{formatText, formatJSON, formatBase64}[kind%3]
		records, err := readAll(text, form)
		if err != nil && !errors.Is(err, errUsage) {
			t.Errorf("%q: %v", text, err)
		}
		if lines := strings.Count(text, "\n") + 1; len(records) > lines {
			t.Errorf("%q has %d lines and %d records", text, lines, len(records))
		}
	})
}
