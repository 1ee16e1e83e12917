package wire

import (
	"bytes"
	"strings"
)

// The media types of responses.
const (
	MediaJSON  = "application/json"
	MediaProto = "application/protobuf"
	MediaSSE   = "text/event-stream"
	MediaS2S   = "s2s/proto"
)

// mediaClass is what a media type means to the records endpoints.
type mediaClass uint8

const (
	mediaNone  mediaClass = iota // no header
	mediaOther                   // anything not recognised, */* included
	mediaJSON
	mediaProto
	mediaSSE
	mediaS2S
)

// classify looks at the first element of a Content-Type or Accept header, without its parameters.
func classify(header string) mediaClass {
	first, _, _ := strings.Cut(header, ",")
	media, _, _ := strings.Cut(first, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	switch media {
	case "":
		return mediaNone
	case MediaJSON:
		return mediaJSON
	case MediaProto, "application/x-protobuf":
		return mediaProto
	case MediaSSE:
		return mediaSSE
	case MediaS2S:
		return mediaS2S
	}
	if kind, sub, ok := strings.Cut(media, "/"); ok && kind != "" && len(sub) > len("+json") && strings.HasSuffix(sub, "+json") {
		return mediaJSON
	}
	return mediaOther
}

// ReadMode is how a read is answered.
type ReadMode uint8

// The ways to answer a read.
const (
	ReadJSON ReadMode = iota
	ReadProto
	ReadSSE
	ReadSession
)

// NegotiateRead decides by the headers of a GET of records. Oddly it is the request's Content-Type that asks for a
// session, though there is no content.
func NegotiateRead(contentType, accept string) ReadMode {
	if classify(contentType) == mediaS2S {
		return ReadSession
	}
	switch classify(accept) {
	case mediaSSE:
		return ReadSSE
	case mediaProto:
		return ReadProto
	}
	return ReadJSON
}

// AppendMode is how an append's body is read.
type AppendMode uint8

// The kinds of an append's body. AppendJSON also covers a missing or foreign type: RequireJSON then refuses it, after
// the checks that come before the body.
const (
	AppendJSON AppendMode = iota
	AppendProto
	AppendSession
)

// NegotiateAppend decides by the headers of a POST of records how the body is read, and whether a unary answer is
// protobuf; the two are independent.
func NegotiateAppend(contentType, accept string) (mode AppendMode, protoResponse bool) {
	switch classify(contentType) {
	case mediaS2S:
		mode = AppendSession
	case mediaProto:
		mode = AppendProto
	}
	return mode, classify(accept) == mediaProto
}

// RequireJSON refuses a body that is not declared as JSON: `bad_json`.
func RequireJSON(contentType string) error {
	if classify(contentType) != mediaJSON {
		return Errorf(CodeBadJSON, "want the content type %s", MediaJSON)
	}
	return nil
}

// OptionalJSON reports whether a body that may be left out is there. Without a content type the body is ignored; with
// JSON's an empty body or a null is none.
func OptionalJSON(contentType string, body []byte) (bool, error) {
	if classify(contentType) == mediaNone {
		return false, nil
	}
	if err := RequireJSON(contentType); err != nil {
		return false, err
	}
	text := bytes.Trim(body, " \t\r\n")
	return len(text) > 0 && string(text) != "null", nil
}
