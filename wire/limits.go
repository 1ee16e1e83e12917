package wire

import "time"

// Limits of the wire. Limits of records and batches (1 MiB, 1000 records) are limits of what is stored and are kept
// by the package that stores it.
const (
	// BodySizeMax is the size of a unary request body after Content-Encoding has been undone, in bytes.
	BodySizeMax = 2 << 20
	// FrameSizeMax is the largest value of a frame's length field: the flag byte and the payload, in bytes. The
	// 24 bits of the field could say more; S2 implementations refuse it.
	FrameSizeMax = 2 << 20
	// FramePayloadMax is the largest payload of a frame, before compression and after it.
	FramePayloadMax = FrameSizeMax - 1
	// CompressMin is the size from which a payload is worth compressing, in bytes.
	CompressMin = 1024
	// RecordsDecodeMax bounds how many records one body may be decoded into. It guards memory only: two bytes of
	// protobuf make a record of about ninety. The limit of a batch is lower and is checked by its owner.
	RecordsDecodeMax = 4096
	// HeadersDecodeMax bounds the headers of all records of one body in the same way. A batch within the limits of S2
	// has fewer, because a header counts for two bytes and its name.
	HeadersDecodeMax = 1 << 19
	// NestingMax is the depth of nesting at which JSON is refused.
	NestingMax = 128
	// MessageSizeMax is the size from which an error's message is cut short, in bytes.
	MessageSizeMax = 1024
	// ErrorBodySizeMax is how much of an error body a client looks at, in bytes.
	ErrorBodySizeMax = 64 << 10
	// SSEEventSizeMax is the size of an SSE event that a reader accepts, in bytes: a batch of 1 MiB in which every
	// byte needs the six characters of a JSON escape, and room for its fields.
	SSEEventSizeMax = 8 << 20

	// ListLimitMax is the number of names in one page of a listing, and the default.
	ListLimitMax = 1000
	// WaitMax caps the `wait` of a unary read, silently.
	WaitMax = 60 * time.Second
	// RevisionTimeoutDefault is how long a read waits for the revision it demands when it does not say.
	RevisionTimeoutDefault = 5 * time.Second
	// RevisionTimeoutMax caps how long it may ask to wait.
	RevisionTimeoutMax = 30 * time.Second

	// BasinNameMin and BasinNameMax bound a basin's name, in bytes, as all name lengths are.
	BasinNameMin = 8
	BasinNameMax = 48
	// StreamNameMax bounds a stream's name.
	StreamNameMax = 512
	// TokenIDMax bounds an access token's id.
	TokenIDMax = 96
	// LocationNameMax bounds a location's name.
	LocationNameMax = 64
	// RequestTokenMax bounds the idempotency token of a creation.
	RequestTokenMax = 36
	// FencingTokenMax bounds a fencing token.
	FencingTokenMax = 36
	// StreamConfigMax bounds the stream config header: a config with all of its members is a tenth of it.
	StreamConfigMax = 4096
	// EncryptionKeyMax bounds the encryption key header after trimming; 44 characters are 32 bytes in base64.
	EncryptionKeyMax = 44
)
