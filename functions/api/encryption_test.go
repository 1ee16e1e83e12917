package api_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/tenancy"
)

func sealKey(b byte) with {
	return with{"s2-encryption-key", base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32))}
}

// TestEncryptedStream walks s2-api 19: who has no key gets nowhere, who has another reads nothing, commands and the
// tail need none, sizes are those of the plaintext, and nothing readable is stored.
func TestEncryptedStream(t *testing.T) {
	t.Parallel()
	r := newRig(t, change{tenancy: func(o *tenancy.Options) { o.Ciphers = []string{segments.CipherAES256GCM} }})
	patch := func(cipher string) answer {
		return r.do("PATCH", "/v1/basins/"+basin, []byte(`{"stream_cipher":`+cipher+`}`))
	}
	if a := r.want(patch(`"aegis-256"`), 422, "invalid"); !strings.Contains(a.body, "aegis-256") {
		t.Fatal(a.body)
	}
	r.create("plain")
	r.want(patch(`"aes-256-gcm"`), http.StatusOK, "")
	r.create("s")
	const body = `{"records":[{"headers":[["name","value"]],"body":"readable words"},{"headers":[["","fence"]],"body":"tok"}]}`
	for _, bad := range []with{{"s2-encryption-key", ""}, {"s2-encryption-key", "AAAA"}, {"s2-encryption-key", "!"}} {
		a := r.want(r.append("s", body, bad), 400, "bad_header")
		if !strings.Contains(a.body, "aes-256-gcm") {
			t.Fatal(a.body)
		}
		if a := r.want(r.read("s", "seq_num=0", bad), 400, "bad_header"); !strings.Contains(a.body, "aes-256-gcm") {
			t.Fatal(a.body)
		}
		if bad.value != "" {
			r.want(r.append("plain", `{"records":[{"body":"x"}]}`, bad), http.StatusOK, "")
		}
	}
	r.want(r.append("plain", body, with{"s2-encryption-key", strings.Repeat("A", 45)}), 400, "bad_header")
	if tail := r.tail("s"); tail != 0 {
		t.Fatalf("tail %d", tail)
	}
	r.want(r.append("s", body, sealKey(1)), http.StatusOK, "")
	r.want(r.append("s", `{"records":[{"body":"other key"}]}`, sealKey(2)), http.StatusOK, "")
	a := r.want(r.read("s", "seq_num=0&count=2", sealKey(1)), http.StatusOK, "")
	var batch struct {
		Records []struct {
			Headers [][2]string
			Body    string
		}
	}
	if err := json.Unmarshal([]byte(a.body), &batch); err != nil || len(batch.Records) != 2 || batch.Records[0].Body != "readable words" ||
		batch.Records[0].Headers[0] != [2]string{"name", "value"} || batch.Records[1].Body != "tok" {
		t.Fatal(a.body)
	}
	r.want(r.read("s", "seq_num=0", sealKey(1)), 400, "decryption_failed")
	r.want(r.read("s", "seq_num=2", sealKey(2)), http.StatusOK, "")
	// 8 + 2 + 9 + 14 bytes for the first record.
	if a := r.want(r.read("s", "seq_num=0&bytes=33", sealKey(1)), http.StatusOK, ""); !strings.Contains(a.body, "readable") {
		t.Fatal(a.body)
	}
	if a := r.want(r.read("s", "seq_num=0&bytes=32", sealKey(1)), http.StatusOK, ""); strings.Contains(a.body, "readable") {
		t.Fatal(a.body)
	}
	if tail := r.tail("s"); tail != 3 {
		t.Fatalf("tail %d", tail)
	}
	names := r.want(r.do("GET", "/v1/streams", nil), http.StatusOK, "")
	if !strings.Contains(names.body, `"cipher":"aes-256-gcm"`) || !strings.Contains(names.body, `"cipher":null`) {
		t.Fatal(names.body)
	}
	// The cipher is the stream's for good, whatever becomes of the basin's default and the stream's config.
	r.want(patch(`null`), http.StatusOK, "")
	r.want(r.do("PUT", "/v1/streams/s", []byte(`{}`)), http.StatusOK, "")
	r.want(r.append("s", `{"records":[{"body":"x"}]}`), 400, "bad_header")
	ref, err := r.names.Resolve(t.Context(), basin, "s", tenancy.Read)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := r.store.Load(t.Context(), ref.Stream)
	if err != nil || len(stored.Log) == 0 {
		t.Fatal(err)
	}
	for _, e := range stored.Log {
		if bytes.Contains(e.Data, []byte("readable")) || bytes.Contains(e.Data, []byte("value")) {
			t.Fatal("a sealed record is readable where it is stored")
		}
	}
	if strings.Contains(r.logs.String(), sealKey(1).value) {
		t.Fatal("a key was logged")
	}
}
