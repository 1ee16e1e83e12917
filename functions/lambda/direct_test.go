package lambda

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestDirectOperations(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	at := fmt.Sprintf(`"basin":%q,"stream":"a/b ü%%"`, basin)
	a := r.direct(Append, `{"operation":"append",`+at+`,"records":[{"body":"one"},{"body":"two"}],"match_seq_num":0}`)
	if a.Status != http.StatusOK || a.Applied != "" || !strings.Contains(string(a.Body), `"end":{"seq_num":2,`) {
		t.Fatalf("append: %+v %s", a, a.Body)
	}
	a = r.direct(Append, `{"operation":"append",`+at+`,"records":[{"body":"three"}],"match_seq_num":1}`)
	if a.Status != http.StatusPreconditionFailed || a.Applied != "no" || string(a.Body) != `{"seq_num_mismatch":2}` || a.Tail == "" {
		t.Errorf("missed match_seq_num: %+v %s", a, a.Body)
	}
	a = r.direct(Read, `{"operation":"read",`+at+`,"seq_num":1,"format":"base64","count":5,"clamp":true}`)
	if a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"body":"dHdv"`) {
		t.Errorf("read: %+v %s", a, a.Body)
	}
	a = r.direct(Read, `{"operation":"check-tail",`+at+`}`)
	if a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"seq_num":2`) {
		t.Errorf("check-tail: %+v %s", a, a.Body)
	}
	a = r.direct(Control, fmt.Sprintf(`{"operation":"request","method":"GET","path":"/v1/streams","query":"limit=5","basin":%q}`, basin))
	if a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"name":"a/b ü%"`) {
		t.Errorf("list: %+v %s", a, a.Body)
	}
	a = r.direct(Read, `{"operation":"read",`+at+`,"seq_num":9}`)
	if a.Status != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("read beyond the tail: %+v %s", a, a.Body)
	}
	if a = r.direct(Append, `{"operation":"append","stream":"x","records":[{}]}`); a.Status != http.StatusBadRequest {
		t.Errorf("without a basin: %+v %s", a, a.Body)
	}
	if a = r.direct(Append, fmt.Sprintf(`{"operation":"append","basin":%q,"stream":"..","records":[{}]}`, basin)); a.Status != http.StatusBadRequest {
		t.Errorf("a stream of dots: %+v %s", a, a.Body)
	}
	if a = r.direct(Read, `{"operation":"append",`+at+`,"records":[{}]}`); a.Status != http.StatusNotImplemented || !strings.Contains(string(a.Body), "function append") {
		t.Errorf("an append at read: %+v %s", a, a.Body)
	}
}

func TestDirectRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for payload, want := range map[string]string{
		`{"operation":"append","match_seqnum":1}`:   "match_seqnum",
		`{"operation":"destroy"}`:                   "none of append",
		`{"operation":"append","match_seq_num":-1}`: "match_seq_num",
		`{"operation":"append"} {}`:                 "",
	} {
		if _, err := r.handle(Append, payload); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", payload, err)
		}
	}
	if got := r.records("x"); got != nil {
		t.Errorf("something was appended: %q", got)
	}
}

func TestMaintainTellsWhatItDid(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for i := range 3 {
		r.direct(Append, fmt.Sprintf(`{"operation":"append","basin":%q,"stream":"s%d","records":[{}]}`, basin, i))
	}
	for _, event := range []string{fixture(t, "schedule"), `{"operation":"maintain"}`} {
		got := decode[report](t, r.must(Maintain, event))
		if !got.Completed || got.Streams != 3 || got.Basins != 1 {
			t.Errorf("the report is %+v", got)
		}
	}
}
