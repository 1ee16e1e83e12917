package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"
)

func TestResourcesGolden(t *testing.T) {
	t.Parallel()
	at := Time{time.Date(2026, 9, 8, 7, 6, 5, 4_300_000, time.FixedZone("", 3600))}
	full := StreamConfig{
		StorageClass: ptr(StorageExpress), RetentionPolicy: &RetentionPolicy{Age: 604800},
		Timestamping:  &Timestamping{Mode: ptr(TimestampClientPrefer), Uncapped: ptr(false)},
		DeleteOnEmpty: &DeleteOnEmpty{MinAgeSecs: 60}, Fencing: ptr(FencingExclusive),
	}
	cooperative := full
	cooperative.Fencing = ptr(FencingCooperative)
	cooperative.RetentionPolicy = &RetentionPolicy{Infinite: true}
	tests := []struct {
		value any
		want  string
	}{
		{BasinInfo{Name: "basin-one", CreatedAt: at}, `{"name":"basin-one","location":null,"created_at":"2026-09-08T06:06:05.004Z","deleted_at":null,"state":"active"}`},
		{ListBasinsResponse{Basins: []BasinInfo{{Name: "b", Location: ptr("aws:x"), CreatedAt: at, DeletedAt: &at}}, HasMore: true},
			`{"basins":[{"name":"b","location":"aws:x","created_at":"2026-09-08T06:06:05.004Z","deleted_at":"2026-09-08T06:06:05.004Z","state":"deleting"}],"has_more":true}`},
		{StreamInfo{Name: "s/é", CreatedAt: at}, `{"name":"s/é","created_at":"2026-09-08T06:06:05.004Z","deleted_at":null,"cipher":null}`},
		{ListStreamsResponse{Streams: []StreamInfo{{Name: "s", CreatedAt: at, DeletedAt: &at, Cipher: ptr(CipherAEGIS256)}}},
			`{"streams":[{"name":"s","created_at":"2026-09-08T06:06:05.004Z","deleted_at":"2026-09-08T06:06:05.004Z","cipher":"aegis-256"}],"has_more":false}`},
		{ListBasinsResponse{}, `{"basins":[],"has_more":false}`},
		{ListStreamsResponse{}, `{"streams":[],"has_more":false}`},
		{full.ForResponse(), `{"storage_class":"express","retention_policy":{"age":604800},"timestamping":{"mode":"client-prefer","uncapped":false},"delete_on_empty":{"min_age_secs":60},"fencing":"exclusive"}`},
		{cooperative.ForResponse(), `{"storage_class":"express","retention_policy":{"infinite":{}},"timestamping":{"mode":"client-prefer","uncapped":false},"delete_on_empty":{"min_age_secs":60}}`},
		{BasinConfig{CreateStreamOnRead: true}, `{"default_stream_config":null,"stream_cipher":null,"create_stream_on_append":false,"create_stream_on_read":true}`},
		{BasinConfig{DefaultStreamConfig: &StreamConfig{Timestamping: &Timestamping{}, Fencing: ptr(FencingCooperative)}, StreamCipher: ptr(CipherAES256GCM), CreateStreamOnAppend: true}.ForResponse(),
			`{"default_stream_config":null,"stream_cipher":"aes-256-gcm","create_stream_on_append":true,"create_stream_on_read":false}`},
		{BasinConfig{DefaultStreamConfig: &StreamConfig{DeleteOnEmpty: &DeleteOnEmpty{}, Timestamping: &Timestamping{Uncapped: ptr(false)}}}.ForResponse(),
			`{"default_stream_config":{"storage_class":null,"retention_policy":null,"timestamping":{"mode":null,"uncapped":false},"delete_on_empty":{"min_age_secs":0}},"stream_cipher":null,"create_stream_on_append":false,"create_stream_on_read":false}`},
		{StreamReconfiguration{}, `{}`},
		{StreamReconfiguration{StorageClass: Null[StorageClass](), RetentionPolicy: Some(RetentionPolicy{Age: 5}), DeleteOnEmpty: Some(DeleteOnEmptyReconfiguration{MinAgeSecs: Some(uint64(0))}), Timestamping: Some(TimestampingReconfiguration{Mode: Null[TimestampingMode]()})},
			`{"storage_class":null,"retention_policy":{"age":5},"timestamping":{"mode":null},"delete_on_empty":{"min_age_secs":0}}`},
	}
	for _, test := range tests {
		got, err := json.Marshal(test.value)
		if err != nil || string(got) != test.want {
			t.Errorf("got %s, %v, want %s", got, err, test.want)
		}
	}
}

func TestResourcesReadBack(t *testing.T) {
	t.Parallel()
	at := Time{time.Date(2026, 9, 8, 7, 6, 5, 4_000_000, time.UTC)}
	want := ListBasinsResponse{Basins: []BasinInfo{{Name: "b", Location: ptr("l"), CreatedAt: at, DeletedAt: &at}}, HasMore: true}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got ListBasinsResponse
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	var info StreamInfo
	if err := json.Unmarshal([]byte(`{"created_at":"2026-09-08T07:06:05.004123456+02:00"}`), &info); err != nil || info.CreatedAt.Nanosecond() != 4123456 {
		t.Errorf("got %v, %v", info.CreatedAt, err)
	}
}

func TestDecodeStreamConfig(t *testing.T) {
	t.Parallel()
	tests := map[string]StreamConfig{
		`{}`: {},
		`{"storage_class":null,"retention_policy":null,"timestamping":null,"delete_on_empty":null,"fencing":null,"cipher":"x"}`: {},
		`{"storage_class":"standard","retention_policy":{"age":0},"timestamping":{"mode":null,"uncapped":true},"delete_on_empty":{},"fencing":"cooperative"}`: {
			StorageClass: ptr(StorageStandard), RetentionPolicy: &RetentionPolicy{}, Timestamping: &Timestamping{Uncapped: ptr(true)}, DeleteOnEmpty: &DeleteOnEmpty{}, Fencing: ptr(FencingCooperative),
		},
		`{"retention_policy":{"infinite":{"later":1}},"timestamping":{"mode":"arrival"},"delete_on_empty":{"min_age_secs":18446744073709551615}}`: {
			RetentionPolicy: &RetentionPolicy{Infinite: true}, Timestamping: &Timestamping{Mode: ptr(TimestampArrival)}, DeleteOnEmpty: &DeleteOnEmpty{MinAgeSecs: 1<<64 - 1},
		},
	}
	for body, want := range tests {
		if got, err := DecodeStreamConfig([]byte(body)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", body, got, err)
		}
	}
	for _, body := range []string{
		``, `null`, `[]`, `{"storage_class":"Express"}`, `{"storage_class":1}`, `{"storage_class":""}`, `{"retention_policy":{}}`, `{"retention_policy":{"age":1,"infinite":{}}}`, `{"retention_policy":{"age":1,"x":2}}`,
		`{"retention_policy":{"age":null}}`, `{"retention_policy":{"age":1.5}}`, `{"retention_policy":{"age":-1}}`, `{"retention_policy":{"age":"7d"}}`, `{"retention_policy":{"infinite":null}}`, `{"retention_policy":{"infinite":true}}`, `{"retention_policy":"infinite"}`,
		`{"timestamping":{"mode":"none"}}`, `{"timestamping":{"uncapped":1}}`, `{"timestamping":[]}`, `{"delete_on_empty":{"min_age_secs":null}}`, `{"delete_on_empty":5}`, `{"fencing":"off"}`, `{} {}`,
	} {
		if _, err := DecodeStreamConfig([]byte(body)); err == nil {
			t.Errorf("%s is accepted", body)
		} else {
			wantCode(t, err, CodeBadJSON)
		}
	}
}

func TestDecodeRequests(t *testing.T) {
	t.Parallel()
	long := fmt.Sprintf("%0512d", 0)
	tests := []struct {
		name string
		got  func(body []byte) (any, error)
		good map[string]any
		bad  []string
	}{
		{
			"create basin", func(b []byte) (any, error) { return DecodeCreateBasin(b) },
			map[string]any{
				`{"basin":"basin-one","config":null,"location":null,"scope":"aws:us-east-1"}`: CreateBasinRequest{Basin: "basin-one"},
				`{"basin":"basin-one","location":"aws:us-east-1","config":{"default_stream_config":{"storage_class":"express"},"stream_cipher":"aegis-256","create_stream_on_append":true,"create_stream_on_read":false}}`: CreateBasinRequest{
					Basin: "basin-one", Location: ptr("aws:us-east-1"),
					Config: &BasinConfig{DefaultStreamConfig: &StreamConfig{StorageClass: ptr(StorageExpress)}, StreamCipher: ptr(CipherAEGIS256), CreateStreamOnAppend: true},
				},
			},
			[]string{`{}`, `{"basin":null}`, `{"basin":""}`, `{"basin":"Basin-one"}`, `{"basin":"basin-one","location":""}`, `{"basin":"basin-one","location":"a b"}`, `{"basin":"basin-one","config":{"create_stream_on_append":null}}`, `{"basin":"basin-one","config":{"create_stream_on_read":null}}`, `{"basin":"basin-one","config":{"stream_cipher":"aes"}}`, `{"basin":"basin-one","config":[]}`},
		},
		{
			"ensure basin", func(b []byte) (any, error) { return DecodeEnsureBasin(b) },
			map[string]any{`{}`: EnsureBasinRequest{}, `{"config":{},"location":"x"}`: EnsureBasinRequest{Config: &BasinConfig{}, Location: ptr("x")}},
			[]string{`null`, `{"config":1}`, `{"location":"_"}`},
		},
		{
			"create stream", func(b []byte) (any, error) { return DecodeCreateStream(b) },
			map[string]any{
				`{"stream":" 😀/"}`: CreateStreamRequest{Stream: " 😀/"}, `{"stream":"` + long + `","config":{}}`: CreateStreamRequest{Stream: long, Config: &StreamConfig{}},
			},
			[]string{`{}`, `{"stream":""}`, `{"stream":"."}`, `{"stream":".."}`, `{"stream":"a\u0000"}`, `{"stream":"` + long + `1"}`, `{"stream":"s","config":{"fencing":1}}`},
		},
		{
			"reconfigure stream", func(b []byte) (any, error) { return DecodeStreamReconfiguration(b) },
			map[string]any{
				`{}`: StreamReconfiguration{},
				`{"storage_class":null,"retention_policy":{"age":7},"timestamping":{"mode":null,"uncapped":true},"delete_on_empty":null,"fencing":null}`: StreamReconfiguration{
					StorageClass: Null[StorageClass](), RetentionPolicy: Some(RetentionPolicy{Age: 7}), DeleteOnEmpty: Null[DeleteOnEmptyReconfiguration](), Fencing: Null[FencingMode](),
					Timestamping: Some(TimestampingReconfiguration{Mode: Null[TimestampingMode](), Uncapped: Some(true)}),
				},
				`{"delete_on_empty":{"min_age_secs":null},"fencing":"exclusive","timestamping":{}}`: StreamReconfiguration{
					DeleteOnEmpty: Some(DeleteOnEmptyReconfiguration{MinAgeSecs: Null[uint64]()}), Fencing: Some(FencingExclusive), Timestamping: Some(TimestampingReconfiguration{}),
				},
			},
			[]string{`null`, `{"storage_class":"x"}`, `{"retention_policy":{}}`, `{"timestamping":{"mode":1}}`, `{"fencing":false}`},
		},
		{
			"reconfigure basin", func(b []byte) (any, error) { return DecodeBasinReconfiguration(b) },
			map[string]any{
				`{}`: BasinReconfiguration{},
				`{"default_stream_config":null,"stream_cipher":null,"create_stream_on_append":false,"create_stream_on_read":true}`: BasinReconfiguration{
					DefaultStreamConfig: Null[StreamReconfiguration](), StreamCipher: Null[Cipher](), CreateStreamOnAppend: ptr(false), CreateStreamOnRead: ptr(true),
				},
				`{"default_stream_config":{"storage_class":null}}`: BasinReconfiguration{DefaultStreamConfig: Some(StreamReconfiguration{StorageClass: Null[StorageClass]()})},
			},
			[]string{`{"create_stream_on_append":null}`, `{"create_stream_on_read":null}`, `{"create_stream_on_read":"true"}`, `{"stream_cipher":"rot13"}`},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for body, want := range test.good {
				got, err := test.got([]byte(body))
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s: got %+v, %v", body, got, err)
				}
				// The client's encoding of what was read is read as the same.
				text, err := json.Marshal(got)
				if err != nil {
					t.Fatal(err)
				}
				if again, err := test.got(text); err != nil || !reflect.DeepEqual(again, want) {
					t.Errorf("%s: got %+v, %v", text, again, err)
				}
			}
			for _, body := range test.bad {
				if _, err := test.got([]byte(body)); err == nil {
					t.Errorf("%s is accepted", body)
				} else {
					wantCode(t, err, CodeBadJSON)
				}
			}
		})
	}
}

func TestOptionalWithEncodingJSON(t *testing.T) {
	t.Parallel()
	var got struct{ A, B, C Optional[int] }
	if err := json.Unmarshal([]byte(`{"A":null,"B":0}`), &got); err != nil {
		t.Fatal(err)
	}
	if !got.A.IsNull() || !got.A.Present() || got.C.Present() || got.C.IsNull() || got.B.IsNull() {
		t.Errorf("got %+v", got)
	}
	if v, ok := got.B.Get(); !ok || v != 0 {
		t.Errorf("got %d, %t", v, ok)
	}
	if _, ok := got.A.Get(); ok {
		t.Error("null has a value")
	}
}

func TestValidateConfig(t *testing.T) {
	t.Parallel()
	zero, good := &RetentionPolicy{}, &RetentionPolicy{Age: 1}
	for _, err := range []error{
		(&StreamConfig{RetentionPolicy: zero}).Validate(), (&BasinConfig{DefaultStreamConfig: &StreamConfig{RetentionPolicy: zero}}).Validate(),
		StreamReconfiguration{RetentionPolicy: Some(*zero)}.Validate(), BasinReconfiguration{DefaultStreamConfig: Some(StreamReconfiguration{RetentionPolicy: Some(*zero)})}.Validate(),
	} {
		wantCode(t, err, CodeInvalid)
	}
	for _, err := range []error{
		(*StreamConfig)(nil).Validate(), (*BasinConfig)(nil).Validate(), (&StreamConfig{RetentionPolicy: good}).Validate(), (&BasinConfig{}).Validate(), RetentionPolicy{Infinite: true}.Validate(),
		StreamReconfiguration{RetentionPolicy: Null[RetentionPolicy]()}.Validate(), BasinReconfiguration{DefaultStreamConfig: Null[StreamReconfiguration]()}.Validate(), BasinReconfiguration{}.Validate(),
	} {
		if err != nil {
			t.Error(err)
		}
	}
}

func FuzzBasinReconfiguration(f *testing.F) {
	f.Add([]byte(`{"default_stream_config":{"retention_policy":{"age":5},"timestamping":{"mode":null},"fencing":"exclusive"},"create_stream_on_read":true}`))
	f.Add([]byte(`{"stream_cipher":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := DecodeBasinReconfiguration(body)
		if err != nil {
			return
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := DecodeBasinReconfiguration(text); err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("got %+v, %v, want %+v", again, err, got)
		}
	})
}
