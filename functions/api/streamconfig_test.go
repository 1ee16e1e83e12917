package api_test

import (
	"net/http"
	"strings"
	"testing"
)

// A stream that an append or a read makes has what the header says over the basin's defaults. One that is there keeps its
// own, and a header that is wrong makes nothing.
func TestStreamConfigHeaderIsForStreamsThatAreMade(t *testing.T) {
	t.Parallel()
	r := newSessionRig(t)
	r.want(r.do("PATCH", "/v1/basins/"+basin, []byte(`{"create_stream_on_append":true,"create_stream_on_read":true,
		"default_stream_config":{"storage_class":"standard","timestamping":{"mode":"arrival"}}}`)), http.StatusOK, "")
	config := with{"s2-stream-config", `{"retention_policy":{"age":3600},"delete_on_empty":{"min_age_secs":300}}`}
	const effective = `{"storage_class":"standard","retention_policy":{"age":3600},` +
		`"timestamping":{"mode":"arrival","uncapped":false},"delete_on_empty":{"min_age_secs":300}`

	ways := map[string]func(stream string, header with){
		"append": func(stream string, header with) { r.want(r.append(stream, one, header), http.StatusOK, "") },
		"session": func(stream string, header with) {
			d := r.openHTTP1("POST", "/v1/streams/"+stream+"/records", header).mustOpen()
			d.append(inputOf("x"))
			d.halfClose()
			if _, err := d.ack(); err != nil {
				t.Error(err)
			}
			d.wantEnd()
		},
		"read": func(stream string, header with) {
			// Nothing is there, which is an answer too.
			r.want(r.read(stream, "seq_num=0", header), http.StatusRequestedRangeNotSatisfiable, "")
		},
		"events": func(stream string, header with) {
			r.want(r.read(stream, "seq_num=0&clamp=true&wait=0", header, with{"Accept", "text/event-stream"}), http.StatusOK, "")
		},
		"read session": func(stream string, header with) {
			r.openHTTP1("GET", "/v1/streams/"+stream+"/records?seq_num=0&clamp=true&wait=0", header).mustOpen()
		},
	}
	for name, use := range ways {
		stream := strings.ReplaceAll(name, " ", "-")
		use(stream, config)
		made := r.want(r.do("GET", "/v1/streams/"+stream, nil), http.StatusOK, "")
		if !strings.HasPrefix(made.body, effective) {
			t.Errorf("%s made %s, want %s", name, made.body, effective)
		}
		use(stream, with{"s2-stream-config", `{"retention_policy":{"infinite":{}}}`})
		if kept := r.do("GET", "/v1/streams/"+stream, nil); kept.body != made.body {
			t.Errorf("%s made %s of %s", name, kept.body, made.body)
		}
	}
	for _, bad := range []string{"not json", `{"retention_policy":{"age":0}}`, `{"storage_class":"tape"}`} {
		for i, a := range []answer{
			r.append("never", one, with{"s2-stream-config", bad}),
			r.read("never", "seq_num=0", with{"s2-stream-config", bad}),
		} {
			if r.want(a, http.StatusBadRequest, "bad_header"); !strings.Contains(a.body, "s2-stream-config: ") {
				t.Errorf("%s (%d): %s", bad, i, a.body)
			}
		}
	}
	if a := r.do("GET", "/v1/streams?prefix=never", nil); !strings.Contains(a.body, `"streams":[]`) {
		t.Errorf("a refused header made a stream: %s", a.body)
	}
}
