package wire

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

func TestFenceInput(t *testing.T) {
	t.Parallel()
	longest, wide := strings.Repeat("x", FencingTokenMax), strings.Repeat("\U0001F600", FencingTokenMax/4)
	for body, want := range map[string]string{
		`{"fencing_token":"t"}`: "t", `{"fencing_token":""}`: "", `{"x":[{}],"fencing_token":"\u00e9\n"}`: "é\n",
		`{"fencing_token":"` + longest + `"}`: longest, `{"fencing_token":"` + wide + `"}`: wide,
	} {
		if got, err := DecodeFenceInput([]byte(body)); err != nil || got.FencingToken != want {
			t.Errorf("%s: got %q, %v", body, got.FencingToken, err)
		}
	}
	for _, body := range []string{
		``, `null`, `{}`, `[]`, `"t"`, `{"fencing_token":null}`, `{"fencing_token":1}`, `{"fencing_token":"\ud800"}`, `{"fencing_token":"t"}x`,
		`{"fencing_token":"` + longest + `x"}`, `{"fencing_token":"` + wide + `x"}`, "{\"fencing_token\":\"\xff\"}",
	} {
		_, err := DecodeFenceInput([]byte(body))
		wantCode(t, err, CodeBadJSON)
	}
}

func TestFenceAnswers(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]any{
		`{"tail":{"seq_num":7,"timestamp":8},"fencing_token":"a\"","previous":"b"}`: FenceAck{StreamPosition{7, 8}, `a"`, "b"},
		`{"tail":{"seq_num":0,"timestamp":0},"fencing_token":"","previous":""}`:     FenceAck{},
		`{"fencing_token":"t"}`: FenceResponse{"t"},
	} {
		if got, err := json.Marshal(value); err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}

func TestFencingTokenOf(t *testing.T) {
	t.Parallel()
	if got, err := FencingTokenOf(http.Header{}); got != nil || err != nil {
		t.Errorf("without the header: %v, %v", got, err)
	}
	for value, want := range map[string]string{"": "", " t ": "t", "é": "é", strings.Repeat("x", FencingTokenMax): strings.Repeat("x", FencingTokenMax)} {
		if got, err := FencingTokenOf(http.Header{HeaderFencingToken: {value}}); err != nil || got == nil || *got != want {
			t.Errorf("%q: %v, %v", value, got, err)
		}
	}
	for _, value := range []string{strings.Repeat("x", FencingTokenMax+1), "\xff"} {
		_, err := FencingTokenOf(http.Header{HeaderFencingToken: {value}})
		wantCode(t, err, CodeBadHeader)
	}
}

// The tail of a refusal, which S2's bodies have no room for, comes back to a client.
func TestTailOfRefusals(t *testing.T) {
	t.Parallel()
	tail := StreamPosition{7, 8}
	for _, want := range []error{
		&FencingTokenMismatch{Installed: "t", Tail: &tail}, &SeqNumMismatch{Next: 7, Tail: &tail}, &RangeNotSatisfiable{Tail: tail},
		&FencingTokenMismatch{Installed: "t"},
	} {
		w := httptest.NewRecorder()
		WriteError(w, want)
		if got := DecodeError(w.Code, w.Body.Bytes(), w.Header()); !reflect.DeepEqual(got, want) {
			t.Errorf("got %#v, want %#v", got, want)
		}
		if _, none := want.(*FencingTokenMismatch); !none && w.Header().Get(HeaderTail) != "7,8" {
			t.Errorf("%v: the tail is %q", want, w.Header().Get(HeaderTail))
		}
	}
}

func FuzzFenceInput(f *testing.F) {
	f.Add([]byte(`{"fencing_token":"t"}`))
	f.Add([]byte(`{"fencing_token":null,"fencing_token":"\ud83d\ude00"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := DecodeFenceInput(body)
		if err != nil {
			return
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := DecodeFenceInput(text); err != nil || again != got {
			t.Fatalf("got %+v, %v, want %+v", again, err, got)
		}
	})
}
