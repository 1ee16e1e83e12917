// Package s2pb holds the protobuf messages of the S2 v1 API, generated from s2.proto. Package wire writes and reads
// the same bytes by hand, because a server does so for every record; its tests hold it against these messages, which
// stay the one definition.
package s2pb

//go:generate go run ./gen
