// Package tailrace is the root of a durable stream store on object storage that speaks the S2 v1 API.
//
// It holds no code. Its tests are about the repository as a whole: which folder may import which, that every direct
// dependency is accounted for, and that no file carries what belongs to one machine or was left unfinished. The server is
// cmd/tailrace; the other folders are described in the README.
package tailrace
