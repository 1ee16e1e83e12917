package wire

import (
	"bytes"
	"encoding/hex"
	"go/build"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/tailrace-streams/tailrace/wire/s2pb"
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestFieldNumbers holds the numbers of proto.go against the definition.
func TestFieldNumbers(t *testing.T) {
	t.Parallel()
	check := func(m proto.Message, want map[protowire.Number]string) {
		fields := m.ProtoReflect().Descriptor().Fields()
		if fields.Len() != len(want) {
			t.Errorf("%T has %d fields, want %d", m, fields.Len(), len(want))
		}
		for num, name := range want {
			f := fields.ByNumber(num)
			if f == nil || f.Name() != protoreflect.Name(name) {
				t.Errorf("%T: field %d is not %s", m, num, name)
			}
		}
	}
	check(&s2pb.StreamPosition{}, map[protowire.Number]string{positionSeqNum: "seq_num", positionTimestamp: "timestamp"})
	check(&s2pb.Header{}, map[protowire.Number]string{headerName: "name", headerValue: "value"})
	check(&s2pb.AppendRecord{}, map[protowire.Number]string{appendRecordTimestamp: "timestamp", appendRecordHeaders: "headers", appendRecordBody: "body"})
	check(&s2pb.AppendInput{}, map[protowire.Number]string{inputRecords: "records", inputMatchSeqNum: "match_seq_num", inputFencingToken: "fencing_token"})
	check(&s2pb.AppendAck{}, map[protowire.Number]string{ackStart: "start", ackEnd: "end", ackTail: "tail"})
	check(&s2pb.SequencedRecord{}, map[protowire.Number]string{recordSeqNum: "seq_num", recordTimestamp: "timestamp", recordHeaders: "headers", recordBody: "body"})
	check(&s2pb.ReadBatch{}, map[protowire.Number]string{batchRecords: "records", batchTail: "tail"})
}

// TestMessagesAreNotLinked keeps the generated messages out of programs: their names are global in a process, and a
// program may also link another S2 client, which has the same.
func TestMessagesAreNotLinked(t *testing.T) {
	t.Parallel()
	pkg, err := build.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(pkg.Imports, func(path string) bool { return strings.HasSuffix(path, "/s2pb") }) {
		t.Error("package wire imports s2pb outside its tests")
	}
}

func TestProtoGolden(t *testing.T) {
	t.Parallel()
	const ts = 1700000000000
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{"input", EncodeAppendInputProto(nil, AppendInput{Records: []AppendRecord{{Body: []byte("hi")}}}), "0a 04 1a 02 68 69"},
		{"fence", EncodeAppendInputProto(nil, AppendInput{Records: []AppendRecord{{Headers: []Header{{nil, []byte("fence")}}, Body: []byte("tok")}}}), "0a 0e 12 07 12 05 66 65 6e 63 65 1a 03 74 6f 6b"},
		{"trim", EncodeAppendInputProto(nil, AppendInput{Records: []AppendRecord{{Headers: []Header{{nil, []byte("trim")}}, Body: []byte{0, 0, 0, 0, 0, 0, 0, 42}}}}), "0a 12 12 06 12 04 74 72 69 6d 1a 08 00 00 00 00 00 00 00 2a"},
		{"presence", EncodeAppendInputProto(nil, AppendInput{Records: []AppendRecord{{HasTimestamp: true}}, MatchSeqNum: ptr(uint64(0)), FencingToken: ptr("")}), "0a 02 08 00 10 00 1a 00"},
		{"ack", EncodeAckProto(nil, AppendAck{Start: StreamPosition{0, ts}, End: StreamPosition{1, ts}, Tail: StreamPosition{1, ts}}), "0a 07 10 80 d0 95 ff bc 31 12 09 08 01 10 80 d0 95 ff bc 31 1a 09 08 01 10 80 d0 95 ff bc 31"},
		{"ack with a version", EncodeAckProto(nil, AppendAck{Version: 300}), "0a 00 12 00 1a 00 78 ac 02"},
		{"zero ack", EncodeAckProto(nil, AppendAck{}), "0a 00 12 00 1a 00"},
		{"heartbeat", EncodeReadBatchProto(nil, nil, &StreamPosition{5, ts}), "12 09 08 05 10 80 d0 95 ff bc 31"},
		{"zero tail", EncodeReadBatchProto(nil, nil, &StreamPosition{}), "12 00"},
		{"no tail", EncodeReadBatchProto(nil, []Record{{}}, nil), "0a 00"},
		{"batch", EncodeReadBatchProto(nil, []Record{{SeqNum: 300, Timestamp: 2, Headers: []Header{{[]byte("n"), []byte("v")}}, Body: []byte("b")}}, &StreamPosition{1, 2}), "0a 10 08 ac 02 10 02 1a 06 0a 01 6e 12 01 76 22 01 62 12 04 08 01 10 02"},
	}
	for _, test := range tests {
		if !bytes.Equal(test.got, unhex(t, test.want)) {
			t.Errorf("%s: got % x, want %s", test.name, test.got, test.want)
		}
	}
}

func toPosition(p *s2pb.StreamPosition) StreamPosition {
	return StreamPosition{SeqNum: p.GetSeqNum(), Timestamp: p.GetTimestamp()}
}

func toHeaders(headers []*s2pb.Header) (got []Header) {
	for _, h := range headers {
		got = append(got, Header{orNil(h.GetName()), orNil(h.GetValue())})
	}
	return got
}

func orNil(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// toInput is what the generated code read.
func toInput(m *s2pb.AppendInput) AppendInput {
	in := AppendInput{MatchSeqNum: m.MatchSeqNum, FencingToken: m.FencingToken}
	for _, r := range m.GetRecords() {
		in.Records = append(in.Records, AppendRecord{
			Timestamp: r.GetTimestamp(), HasTimestamp: r.Timestamp != nil, Headers: toHeaders(r.GetHeaders()), Body: orNil(r.GetBody()),
		})
	}
	return in
}

func toBatch(m *s2pb.ReadBatch) ReadBatch {
	var b ReadBatch
	for _, r := range m.GetRecords() {
		b.Records = append(b.Records, Record{SeqNum: r.GetSeqNum(), Timestamp: r.GetTimestamp(), Headers: toHeaders(r.GetHeaders()), Body: orNil(r.GetBody())})
	}
	if m.GetTail() != nil {
		b.Tail = ptr(toPosition(m.GetTail()))
	}
	return b
}

// TestProtoAgrees holds hand-written bytes against the generated code, both ways, and against JSON: a record is the
// same whichever way it came.
func TestProtoAgrees(t *testing.T) {
	t.Parallel()
	for _, f := range formats {
		rapid.Check(t, func(t *rapid.T) {
			in := genInput(f).Draw(t, "input")
			var message s2pb.AppendInput
			body := EncodeAppendInputProto(nil, in)
			if err := proto.Unmarshal(body, &message); err != nil || !reflect.DeepEqual(toInput(&message), in) {
				t.Fatalf("generated code reads %v, %v from %+v", &message, err, in)
			}
			std, err := proto.MarshalOptions{Deterministic: true}.Marshal(&message)
			if err != nil || !bytes.Equal(std, body) {
				t.Fatalf("generated code writes % x, %v, not % x", std, err, body)
			}
			fromProto, err := DecodeAppendInputProto(body, CodeBadProto)
			if err != nil || !reflect.DeepEqual(fromProto, in) {
				t.Fatalf("got %+v, %v, want %+v", fromProto, err, in)
			}
			fromJSON, err := DecodeAppendInputJSON(EncodeAppendInputJSON(nil, in, f), f)
			if err != nil || !reflect.DeepEqual(fromJSON, fromProto) {
				t.Fatalf("JSON gives %+v, %v, protobuf %+v", fromJSON, err, fromProto)
			}
		})
		rapid.Check(t, func(t *rapid.T) {
			batch := genBatch(f).Draw(t, "batch")
			body := EncodeReadBatchProto(nil, batch.Records, batch.Tail)
			var message s2pb.ReadBatch
			if err := proto.Unmarshal(body, &message); err != nil || !reflect.DeepEqual(toBatch(&message), batch) {
				t.Fatalf("generated code reads %v, %v from %+v", &message, err, batch)
			}
			fromProto, err := DecodeReadBatchProto(body)
			if err != nil || !reflect.DeepEqual(fromProto, batch) {
				t.Fatalf("got %+v, %v, want %+v", fromProto, err, batch)
			}
			fromJSON, err := DecodeReadBatchJSON(AppendReadBatchJSON(nil, batch.Records, batch.Tail, f), f)
			if err != nil || !reflect.DeepEqual(fromJSON, fromProto) {
				t.Fatalf("JSON gives %+v, %v, protobuf %+v", fromJSON, err, fromProto)
			}
			size := 0
			for i := range batch.Records {
				size += SizeRecordProto(&batch.Records[i])
			}
			if batch.Tail == nil && size != len(body) || batch.Tail != nil && (size >= len(body) || size+SizeTailProto < len(body)) {
				t.Fatalf("records take %d of %d bytes", size, len(body))
			}
		})
	}
}

func TestAckProto(t *testing.T) {
	t.Parallel()
	for _, ack := range []AppendAck{ackSample, {}, {Version: 1<<64 - 1}} {
		if got, err := DecodeAckProto(EncodeAckProto(nil, ack)); err != nil || got != ack {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	for _, body := range []string{"", "0a 00 12 00", "0a 00 12 00 1a 05", "0a 00 12 00 18 05", "ff"} {
		_, err := DecodeAckProto(unhex(t, body))
		wantCode(t, err, CodeBadProto)
	}
}

func TestDecodeProtoRefuses(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		"0a", "0a 05 00", "08", "ff ff ff ff ff ff ff ff ff ff ff", "00", "07", "0c", "0b", "0a 02 08", "0a 01 12", "0a 02 12 05", "0a 03 12 01 0a", "1a 01 ff", "10 ff ff ff ff ff ff ff ff ff 7f",
	} {
		for _, at := range []Code{CodeBadProto, CodeBadFrame} {
			_, err := DecodeAppendInputProto(unhex(t, body), at)
			wantCode(t, err, at)
		}
	}
	_, err := DecodeAppendInputProto(EncodeAppendInputProto(nil, AppendInput{FencingToken: ptr(strings.Repeat("t", 37))}), CodeBadProto)
	wantCode(t, err, CodeInvalid)
	_, err = DecodeAppendInputProto(bytes.Repeat([]byte{0x0a, 0}, RecordsDecodeMax+1), CodeBadProto)
	wantCode(t, err, CodeInvalid)
	many := bytes.Repeat([]byte{0x12, 0}, HeadersDecodeMax+1)
	_, err = DecodeAppendInputProto(append(openMessage(nil, inputRecords, len(many)), many...), CodeBadProto)
	wantCode(t, err, CodeInvalid)
	if in, err := DecodeAppendInputProto(bytes.Repeat([]byte{0x0a, 0}, RecordsDecodeMax), CodeBadProto); err != nil || len(in.Records) != RecordsDecodeMax {
		t.Errorf("got %d records, %v", len(in.Records), err)
	}
}

func FuzzAppendInputProto(f *testing.F) {
	f.Add(EncodeAppendInputProto(nil, inputSample))
	for _, seed := range []string{"0a 04 1a 02 68 69", "10 00 1a 00", "08 01 0a 00", "2b 2c", "0a 02 0a 00 0d 01 02 03 04", "12 00 18 05"} {
		f.Add(unhex(f, seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var message s2pb.AppendInput
		stdErr := proto.Unmarshal(body, &message)
		in, err := DecodeAppendInputProto(body, CodeBadProto)
		e, _ := err.(*Error)
		if e != nil && e.Code == CodeInvalid {
			return // more than may be decoded
		}
		if (stdErr == nil) != (err == nil) {
			t.Fatalf("got %v, generated code %v", err, stdErr)
		}
		if err == nil && !reflect.DeepEqual(in, toInput(&message)) {
			t.Fatalf("got %+v, generated code %v", in, &message)
		}
	})
}

func FuzzReadBatchProto(f *testing.F) {
	f.Add(EncodeReadBatchProto(nil, recordsSample, &StreamPosition{1, 2}))
	f.Add(unhex(f, "12 02 08 01 12 02 10 05 0a 00"))
	f.Fuzz(func(t *testing.T, body []byte) {
		var message s2pb.ReadBatch
		stdErr := proto.Unmarshal(body, &message)
		batch, err := DecodeReadBatchProto(body)
		if (stdErr == nil) != (err == nil) || err == nil && !reflect.DeepEqual(batch, toBatch(&message)) {
			t.Fatalf("got %+v, %v, generated code %v, %v", batch, err, &message, stdErr)
		}
		_, _ = DecodeAckProto(body)
	})
}

func BenchmarkDecodeAppendInputProto(b *testing.B) {
	in := AppendInput{Records: make([]AppendRecord, 1000)}
	for i := range in.Records {
		in.Records[i] = AppendRecord{Headers: []Header{{[]byte("k"), []byte("v")}}, Body: bytes.Repeat([]byte("x"), 1000)}
	}
	body := EncodeAppendInputProto(nil, in)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeAppendInputProto(body, CodeBadProto); err != nil {
			b.Fatal(err)
		}
	}
}
