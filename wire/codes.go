package wire

import "net/http"

// Code is the `code` of an S2 error. The zero Code is no code at all: an answer whose body had none that is known.
type Code string

// The codes of the S2 API. Each stands for exactly one HTTP status, because clients treat a known code with another
// status as unknown.
const (
	CodeAccessTokenNotFound   Code = "access_token_not_found"
	CodeAuthn                 Code = "authn"
	CodeBadFrame              Code = "bad_frame"
	CodeBadHeader             Code = "bad_header"
	CodeBadJSON               Code = "bad_json"
	CodeBadPath               Code = "bad_path"
	CodeBadProto              Code = "bad_proto"
	CodeBadQuery              Code = "bad_query"
	CodeBasinDeletionPending  Code = "basin_deletion_pending"
	CodeBasinNotFound         Code = "basin_not_found"
	CodeClientHangup          Code = "client_hangup"
	CodeDecryptionFailed      Code = "decryption_failed"
	CodeHotServer             Code = "hot_server"
	CodeInvalid               Code = "invalid"
	CodeNotImplemented        Code = "not_implemented"
	CodeOther                 Code = "other"
	CodePermissionDenied      Code = "permission_denied"
	CodeQuotaExhausted        Code = "quota_exhausted"
	CodeRateLimited           Code = "rate_limited"
	CodeRequestTimeout        Code = "request_timeout"
	CodeResourceAlreadyExists Code = "resource_already_exists"
	CodeServerDraining        Code = "server_draining"
	CodeStorage               Code = "storage"
	CodeStreamDeletionPending Code = "stream_deletion_pending"
	CodeStreamNotFound        Code = "stream_not_found"
	CodeTransactionConflict   Code = "transaction_conflict"
	CodeUnavailable           Code = "unavailable"
	CodeUpstreamTimeout       Code = "upstream_timeout"
)

// statusClientHangup is what S2 answers to a client that is gone; net/http has no name for it.
const statusClientHangup = 499

// codeInfo is a row of the table: what a code means to the client that receives it.
type codeInfo struct {
	status    int  // the HTTP status, also that of a terminal frame
	retryable bool // official clients may send the request again
	noEffect  bool // definite: the request changed nothing and will not
}

// codes is the one table of errors. noEffect false says "maybe": whoever knows better says so in Error.Applied.
var codes = map[Code]codeInfo{
	// An access token to revoke has no such id.
	CodeAccessTokenNotFound: {http.StatusNotFound, false, true},
	// The bearer token is missing, malformed, unknown, expired or revoked.
	CodeAuthn: {http.StatusUnauthorized, false, true},
	// In an append session: a frame that is too large, cut short, wrongly compressed, terminal, or not an AppendInput.
	// Of the batch in that frame nothing is applied; earlier batches of the session are acknowledged or were refused.
	CodeBadFrame: {http.StatusBadRequest, false, true},
	// A header is missing or malformed; also an encryption key missing for an encrypted stream.
	CodeBadHeader: {http.StatusBadRequest, false, true},
	// A body is not JSON of the described shape, has a bad name in it, is too large, or is not declared as JSON.
	CodeBadJSON: {http.StatusBadRequest, false, true},
	// A name in the path is not one.
	CodeBadPath: {http.StatusBadRequest, false, true},
	// A unary protobuf body is too large or cannot be decoded.
	CodeBadProto: {http.StatusBadRequest, false, true},
	// A query parameter has the wrong type, or is a bad prefix.
	CodeBadQuery: {http.StatusBadRequest, false, true},
	// The basin to create, configure or create streams in is being deleted.
	CodeBasinDeletionPending: {http.StatusConflict, false, true},
	// No basin has this name.
	CodeBasinNotFound: {http.StatusNotFound, false, true},
	// The client went away before its answer. Nobody reads this but the log.
	CodeClientHangup: {statusClientHangup, false, false},
	// The key does not authenticate a stored record.
	CodeDecryptionFailed: {http.StatusBadRequest, false, true},
	// The process has no capacity left; refused before anything was done.
	CodeHotServer: {http.StatusBadGateway, true, true},
	// The request has the right shape and a meaning that is not allowed.
	CodeInvalid: {http.StatusUnprocessableEntity, false, true},
	// This deployment does not serve the endpoint.
	CodeNotImplemented: {http.StatusNotImplemented, false, true},
	// Anything unexpected, and every error that is not described here.
	CodeOther: {http.StatusInternalServerError, true, false},
	// The token does not permit the operation or the resource.
	CodePermissionDenied: {http.StatusForbidden, false, true},
	// A quota on a count (basins, streams, stored bytes) is used up.
	CodeQuotaExhausted: {http.StatusForbidden, false, true},
	// A quota on a rate is used up for the moment.
	CodeRateLimited: {http.StatusTooManyRequests, true, true},
	// The server gave up on the request in time spent.
	CodeRequestTimeout: {http.StatusRequestTimeout, true, false},
	// A basin, stream or token to create exists, and this is not a replay of its creation.
	CodeResourceAlreadyExists: {http.StatusConflict, false, true},
	// The process is shutting down; refused before anything was done.
	CodeServerDraining: {http.StatusServiceUnavailable, true, true},
	// The store failed, or what it holds cannot be read.
	CodeStorage: {http.StatusInternalServerError, true, false},
	// The stream is being deleted.
	CodeStreamDeletionPending: {http.StatusConflict, false, true},
	// No stream has this name, and it is not created on use.
	CodeStreamNotFound: {http.StatusNotFound, false, true},
	// Concurrent changes of metadata collided; this one was not made.
	CodeTransactionConflict: {http.StatusConflict, true, true},
	// The outcome is in doubt, such as when a store did not answer.
	CodeUnavailable: {http.StatusServiceUnavailable, true, false},
	// A dependency did not answer in time.
	CodeUpstreamTimeout: {http.StatusGatewayTimeout, true, false},
}

// Known reports whether the API describes the code.
func (c Code) Known() bool {
	_, ok := codes[c]
	return ok
}

// Status is the HTTP status that the code stands for; 500 for a code the API does not describe.
func (c Code) Status() int {
	if info, ok := codes[c]; ok {
		return info.status
	}
	return http.StatusInternalServerError
}

// Retryable reports whether official clients may send the request again.
func (c Code) Retryable() bool { return codes[c].retryable }

// NoEffect reports whether the code by itself says that the request changed nothing.
func (c Code) NoEffect() bool { return codes[c].noEffect }
