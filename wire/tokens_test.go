package wire

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

func TestDecodeIssueAccessToken(t *testing.T) {
	t.Parallel()
	at := Time{time.Date(2026, 9, 8, 7, 6, 5, 0, time.UTC)}
	for body, want := range map[string]IssueAccessTokenRequest{
		`{"id":"t","scope":{}}`: {ID: "t"},
		`{"id":"t","expires_at":null,"scope":{"basins":null,"op_groups":null,"ops":null}}`: {ID: "t"},
		`{"id":"t/1","expires_at":"2026-09-08T07:06:05Z","auto_prefix_streams":true,"scope":{"basins":{"exact":"basin-one"},"streams":{"prefix":""},"access_tokens":{"exact":""},"op_groups":{"account":{"read":true},"basin":null,"stream":{"read":true,"write":true}},"ops":["append","fence","append"]}}`: {
			ID: "t/1", ExpiresAt: &at, AutoPrefixStreams: true,
			Scope: AccessTokenScope{
				Basins: &ResourceSet{Name: "basin-one"}, Streams: &ResourceSet{IsPrefix: true}, AccessTokens: &ResourceSet{},
				OpGroups: OpGroups{Account: ReadWrite{Read: true}, Stream: ReadWrite{Read: true, Write: true}}, Ops: []Operation{"append", "fence"},
			},
		},
	} {
		if got, err := DecodeIssueAccessToken([]byte(body)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", body, got, err)
		}
	}
	for _, body := range []string{
		`{}`, `{"id":"t"}`, `{"scope":{}}`, `{"id":"..","scope":{}}`, `{"id":"t","scope":null}`, `{"id":"t","scope":{},"expires_at":"tomorrow"}`, `{"id":"t","scope":{},"auto_prefix_streams":null}`,
		`{"id":"t","scope":{"ops":["fly"]}}`, `{"id":"t","scope":{"ops":{}}}`, `{"id":"t","scope":{"basins":{}}}`, `{"id":"t","scope":{"basins":{"exact":"a","prefix":"a"}}}`, `{"id":"t","scope":{"basins":{"exact":"short"}}}`,
		`{"id":"t","scope":{"basins":{"prefix":"A"}}}`, `{"id":"t","scope":{"streams":{"exact":".."}}}`, `{"id":"t","scope":{"streams":{"suffix":"a"}}}`, `{"id":"t","scope":{"op_groups":{"basin":{"read":null}}}}`,
	} {
		if _, err := DecodeIssueAccessToken([]byte(body)); err == nil {
			t.Errorf("%s is accepted", body)
		} else {
			wantCode(t, err, CodeBadJSON)
		}
	}
}

func TestAccessTokenGolden(t *testing.T) {
	t.Parallel()
	at := Time{time.Date(2026, 9, 8, 7, 6, 5, 0, time.UTC)}
	info := AccessTokenInfo{ID: "t", ExpiresAt: &at, AutoPrefixStreams: true, Scope: AccessTokenScope{
		Basins: &ResourceSet{Name: "basin-one"}, Streams: &ResourceSet{Name: "p", IsPrefix: true}, AccessTokens: &ResourceSet{}, OpGroups: OpGroups{Basin: ReadWrite{Write: true}},
	}}
	got, err := json.Marshal(ListAccessTokensResponse{AccessTokens: []AccessTokenInfo{info}, HasMore: true})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "tokens.json", got)
	var back ListAccessTokensResponse
	info.Scope.AccessTokens, info.Scope.Ops = nil, []Operation{} // the normal form
	if err := json.Unmarshal(got, &back); err != nil || !reflect.DeepEqual(back.AccessTokens[0], info) {
		t.Errorf("got %+v, %v", back, err)
	}
	if got, err := json.Marshal(ListAccessTokensResponse{}); err != nil || string(got) != `{"access_tokens":[],"has_more":false}` {
		t.Errorf("got %s, %v", got, err)
	}
	if len(operations) != 24 {
		t.Errorf("%d operations, want 24", len(operations))
	}
}

func TestDecodeLocationName(t *testing.T) {
	t.Parallel()
	if got, err := DecodeLocationName([]byte(` "aws:us-east-1" `)); err != nil || got != "aws:us-east-1" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, body := range []string{``, `""`, `aws`, `{"name":"a"}`, `"a b"`, `"a" "b"`} {
		_, err := DecodeLocationName([]byte(body))
		wantCode(t, err, CodeBadJSON)
	}
}

func TestRevision(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Revision{
		"basin-one/s@0192.7":                    {"basin-one", "s", "0192", 7},
		"basin-one/@0192.0":                     {"basin-one", "", "0192", 0},
		"basin-one/a%2Fb@.c%20%C3%A9@0192-ab.9": {"basin-one", "a/b@.c é", "0192-ab", 9},
	} {
		got, err := ParseRevision(text, CodeBadHeader)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: got %+v, %v, written as %s", text, got, err, got)
		}
	}
	for _, text := range []string{"", "basin-one", "basin-one/s", "basin-one/s@1", "basin-one/s@.1", "basin-one/s@1.", "basin-one/s@1.-1", "b/s@1.1", "basin-one/%zz@1.1", "basin-one/..@1.1", "basin-one/a.1@b"} {
		for _, at := range []Code{CodeBadHeader, CodeBadQuery} {
			_, err := ParseRevision(text, at)
			wantCode(t, err, at)
		}
	}
}

func FuzzRevision(f *testing.F) {
	f.Add("basin-one/a%2Fb@0192.7")
	f.Add("basin-one/@1.0")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRevision(text, CodeBadHeader)
		if err != nil {
			return
		}
		if again, err := ParseRevision(r.String(), CodeBadHeader); err != nil || again != r {
			t.Fatalf("got %+v, %v, want %+v", again, err, r)
		}
	})
}

func FuzzIssueAccessToken(f *testing.F) {
	f.Add([]byte(`{"id":"t","expires_at":"2026-09-08T07:06:05Z","scope":{"basins":{"prefix":"a"},"ops":["append"],"op_groups":{"stream":{"read":true}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := DecodeIssueAccessToken(body)
		if err != nil || r.ExpiresAt != nil {
			return // times lose what is beyond milliseconds
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeIssueAccessToken(text)
		if err != nil || again.ID != r.ID || len(again.Scope.Ops) != len(r.Scope.Ops) || again.Scope.OpGroups != r.Scope.OpGroups {
			t.Fatalf("got %+v, %v, want %+v", again, err, r)
		}
	})
}
