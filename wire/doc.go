// Package wire is the S2 v1 wire: JSON and protobuf types, s2s frames, SSE, names, content negotiation and the one
// error table. It turns bytes into values and values into bytes, for the server and for the Go client; it knows no
// stream, no store and no tenant.
//
// Shapes are refused here (400: a body that is not what the API describes). Meaning is refused by the packages that
// own it (422: an empty batch, a record that is too large), with one exception: base64 that is not base64, because
// only this package knows that a string was meant to be base64.
//
// All functions may be called at once from many goroutines; a FrameReader, FrameWriter or SSEReader belongs to one.
package wire
