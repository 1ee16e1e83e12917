package wire

import (
	"strconv"
	"strings"
)

// The names of SSE events; the clean end has none.
const (
	eventBatch = "batch"
	eventPing  = "ping"
	eventError = "error"
	// eventDone is the data of the clean end. After an error it does not come.
	eventDone = "[DONE]"
)

// EventID is the id of a batch event, with which a client resumes: `seq,count,bytes`.
type EventID struct {
	// SeqNum is that of the batch's last record; reading resumes after it.
	SeqNum uint64
	// Count and Bytes (metered) are what this connection has delivered, to be taken off the limits of the request.
	Count, Bytes uint64
}

func (id EventID) append(dst []byte) []byte {
	dst = append(strconv.AppendUint(dst, id.SeqNum, 10), ',')
	dst = append(strconv.AppendUint(dst, id.Count, 10), ',')
	return strconv.AppendUint(dst, id.Bytes, 10)
}

// String is the id as it is sent.
func (id EventID) String() string { return string(id.append(nil)) }

// ParseEventID reads an id, or the header Last-Event-ID: `bad_header` if it is none.
func ParseEventID(text string) (EventID, error) {
	var id EventID
	parts := strings.Split(strings.TrimSpace(text), ",")
	if len(parts) != 3 {
		return EventID{}, Errorf(CodeBadHeader, "Last-Event-ID is a sequence number, a count and a size")
	}
	for i, to := range []*uint64{&id.SeqNum, &id.Count, &id.Bytes} {
		n, err := parseU64(parts[i])
		if err != nil {
			return EventID{}, Errorf(CodeBadHeader, "Last-Event-ID is three unsigned integers")
		}
		*to = n
	}
	return id, nil
}

// Resume changes the query of a read to go on after the event: its start, and what is left of its limits. A stream's
// last possible record has no successor; the start then stays at it.
func (id EventID) Resume(q ReadQuery) ReadQuery {
	start := id.SeqNum
	if start+1 > start {
		start++
	}
	q.SeqNum, q.Timestamp, q.TailOffset = &start, nil, nil
	for _, limit := range []struct {
		of   **uint64
		used uint64
	}{{&q.Count, id.Count}, {&q.Bytes, id.Bytes}} {
		if *limit.of != nil {
			left := **limit.of - min(**limit.of, limit.used)
			*limit.of = &left
		}
	}
	return q
}

// AppendSSEBatch appends a batch event. There must be records: the id names the last one.
func AppendSSEBatch(dst []byte, id EventID, records []Record, tail *StreamPosition, f Format) []byte {
	dst = append(dst, "event: "+eventBatch+"\nid: "...)
	dst = append(id.append(dst), "\ndata: "...)
	dst = AppendReadBatchJSON(dst, records, tail, f)
	return append(dst, "\n\n"...)
}

// AppendSSEPing appends a heartbeat with the server's time in milliseconds and the durable tail.
func AppendSSEPing(dst []byte, now uint64, tail StreamPosition) []byte {
	dst = append(dst, "event: "+eventPing+"\ndata: {\"timestamp\":"...)
	dst = append(strconv.AppendUint(dst, now, 10), `,"tail":`...)
	return append(appendPosition(dst, tail), "}\n\n"...)
}

// AppendSSEError appends the event that ends a stream with err. Nothing may follow.
func AppendSSEError(dst []byte, err error) []byte {
	_, body := EncodeSessionError(err)
	dst = append(append(dst, "event: "+eventError+"\ndata: "...), body...)
	return append(dst, "\n\n"...)
}

// AppendSSEDone appends the clean end.
func AppendSSEDone(dst []byte) []byte { return append(dst, "data: "+eventDone+"\n\n"...) }
