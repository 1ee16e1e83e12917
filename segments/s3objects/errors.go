package s3objects

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

var (
	// ErrUnavailable is in an error after which the same call may succeed later: the store throttles, fails, or cannot be
	// reached. Other errors need somebody to change something, or mean that the caller gave up.
	ErrUnavailable = errors.New("object store is unavailable")
	// ErrMisbehaves is in an error about an answer that no S3 store may give: what it says cannot be relied on.
	ErrMisbehaves = errors.New("object store breaks the protocol")
	// ErrNoCredentials is returned when no source has credentials.
	ErrNoCredentials = errors.New("no credentials for the object store")
)

// Error is what became of a call that the store refused or did not answer. It holds no key of an object, no credential and
// no URL. It matches ErrUnavailable if the call may be tried again later.
type Error struct {
	// Op is the verb and object of the call: "put object".
	Op string
	// Status is the HTTP status; 0 if there was no whole answer, or if it is about one of several keys.
	Status int
	// Code is the store's own name for the error, as in its answer: SlowDown. Empty if it gave none.
	Code string
	// Message is the rest of the answer, cut at 200 bytes.
	Message string
	// Attempts is how many requests were made for the call.
	Attempts int
	// Sent reports that a request may have reached the store. If it did not, nothing came of the call, now or later.
	Sent bool
	// Temporary reports that the same call may succeed later.
	Temporary bool
	// RetryAfter is how long the store asked to be left alone; 0 if it did not.
	RetryAfter time.Duration

	cause error // why there was no answer; nil if there was one
	// before is what the last answer had been, where it was the caller who did not wait any longer: most often it is why
	// the call took too long (BL-099).
	before error
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	switch {
	case e.cause != nil:
		fmt.Fprintf(&b, ": %v", e.cause)
	default:
		b.WriteString(": store answered")
		if e.Status != 0 {
			fmt.Fprintf(&b, " %d", e.Status)
		}
		if e.Code != "" {
			fmt.Fprintf(&b, " %s", e.Code)
		}
		fmt.Fprintf(&b, ": %s", e.Message)
	}
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " (%d attempts)", e.Attempts)
	}
	if e.before != nil {
		fmt.Fprintf(&b, ", after %v", e.before)
	}
	return b.String()
}

// Unwrap implements the interface of errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	var errs []error
	if e.cause != nil {
		errs = append(errs, e.cause)
	}
	if e.Temporary {
		errs = append(errs, ErrUnavailable)
	}
	return errs
}

// pause is how long to wait before a call is repeated.
type pause uint8

const (
	pauseNone  pause = iota // what was wrong has been put right
	pauseShort              // an accident
	pauseLong               // the store asked for fewer requests
)

// failure is an error read for what to do about it.
type failure struct {
	Error
	again pause
	// stale reports that the credentials were refused as expired.
	stale bool
}

// Codes that ask for a repeat whatever the status they come with. RequestTimeTooSkewed: the answer's Date has told us the
// store's clock. The digest codes: the body was damaged on its way.
var repeatedCodes = map[string]pause{
	"SlowDown": pauseLong, "SlowDownRead": pauseLong, "SlowDownWrite": pauseLong, "Throttling": pauseLong,
	"ThrottlingException": pauseLong, "RequestLimitExceeded": pauseLong, "RequestThrottled": pauseLong, "TooManyRequests": pauseLong,
	"RequestTimeout": pauseShort, "InternalError": pauseShort, "OperationAborted": pauseShort, "IncompleteBody": pauseShort,
	"BadDigest": pauseShort, "XAmzContentSHA256Mismatch": pauseShort,
	"RequestTimeTooSkewed": pauseNone, "ExpiredToken": pauseNone, "ExpiredTokenException": pauseNone, "InvalidToken": pauseNone,
}

// repeatedStatuses are those of a server, or of a proxy before it, that may do better next time. A 409 is a conflict with
// another request under way, and decides nothing.
var repeatedStatuses = map[int]pause{
	http.StatusTooManyRequests: pauseLong, http.StatusServiceUnavailable: pauseLong,
	http.StatusRequestTimeout: pauseShort, http.StatusConflict: pauseShort, http.StatusInternalServerError: pauseShort,
	http.StatusBadGateway: pauseShort, http.StatusGatewayTimeout: pauseShort,
	499: pauseShort, 520: pauseShort, 521: pauseShort, 522: pauseShort, 523: pauseShort, 524: pauseShort,
}

// read turns an error of the client library, or of our own checks, into a failure.
func read(op string, err error) failure {
	f := failure{Error: Error{Op: op}}
	if answer, ok := errors.AsType[minio.ErrorResponse](err); ok && (answer.StatusCode != 0 || answer.Code != "") {
		f.Status, f.Code, f.Message = answer.StatusCode, oneLine(answer.Code), oneLine(answer.Message)
		if answer.StatusCode != 0 && answer.XMLName.Local == "" {
			f.Code = "" // the library's guess from the status, not the store's word
		}
		f.again, f.Temporary = repeatedCodes[f.Code]
		if !f.Temporary {
			f.again, f.Temporary = repeatedStatuses[answer.StatusCode]
		}
		f.stale = f.Code == "ExpiredToken" || f.Code == "ExpiredTokenException" || f.Code == "InvalidToken"
		return f
	}
	f.cause = withoutURL(err)
	f.again, f.Temporary = pauseShort, !isLasting(err)
	return f
}

// isLasting reports whether an error that is no answer will come again however often the call is repeated.
func isLasting(err error) bool {
	if errors.Is(err, ErrNoCredentials) || errors.Is(err, ErrMisbehaves) || errors.Is(err, http.ErrSchemeMismatch) {
		return true
	}
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, host := errors.AsType[x509.HostnameError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	_, verify := errors.AsType[*tls.CertificateVerificationError](err)
	return unknown || host || invalid || verify
}

// withoutURL drops the request's URL, in which the object's key is, and puts what the library says about a closed
// connection in fewer words.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if strings.HasPrefix(err.Error(), "Connection closed by foreign host") {
		return errors.New("connection closed by the store")
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		// Only our own timeouts come here. They are not the caller's, who would take the error for that of his context.
		return errors.New("no answer in time")
	}
	return err
}

// oneLine makes text from outside fit to stand in an error.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, s[:min(len(s), 200)])
	return strings.TrimSpace(s)
}

// isNotFound reports whether the store itself said that there is no such object. An answer without the store's own error
// document, as a proxy gives one, says nothing about the object; nor does a missing bucket.
func isNotFound(err error) bool {
	answer, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && answer.StatusCode == http.StatusNotFound && answer.Code == minio.NoSuchKey && answer.XMLName.Local == "Error"
}
