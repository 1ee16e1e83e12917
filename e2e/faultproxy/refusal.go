package faultproxy

import (
	"fmt"
	"net/http"
)

// Refusal is an answer in the store's stead.
type Refusal struct {
	Status int
	Header http.Header
	Body   string
}

func (a *Refusal) write(w http.ResponseWriter) {
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write([]byte(a.Body))
}

// Objects is an error as S3 answers it, such as 503 SlowDown, 409 ConditionalRequestConflict, 500 InternalError.
func Objects(status int, code string) *Refusal {
	return &Refusal{
		Status: status, Header: http.Header{"Content-Type": {"application/xml"}},
		Body: fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>as the test asked</Message></Error>`, code),
	}
}

// Items is an error as DynamoDB answers it, such as 400 ThrottlingException, ProvisionedThroughputExceededException or
// TransactionConflictException, and 500 InternalServerError.
func Items(status int, code string) *Refusal { return itemsError(status, code, "") }

// Cancelled is the error of a transaction that DynamoDB gave up for these reasons, "None" among them.
func Cancelled(reasons ...string) *Refusal {
	list := ""
	for i, reason := range reasons {
		if i > 0 {
			list += ","
		}
		list += fmt.Sprintf(`{"Code":%q}`, reason)
	}
	return itemsError(http.StatusBadRequest, "TransactionCanceledException", `,"CancellationReasons":[`+list+`]`)
}

func itemsError(status int, code, more string) *Refusal {
	return &Refusal{
		Status: status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"as the test asked"%s}`, code, more),
	}
}

// Page is an answer for people, as a balancer in between gives it.
func Page(status int) *Refusal {
	return &Refusal{Status: status, Header: http.Header{"Content-Type": {"text/html"}}, Body: "<html>no</html>"}
}

// The refusals of a store that is asked for too much.
var (
	SlowDown  = Objects(http.StatusServiceUnavailable, "SlowDown")
	Throttled = Items(http.StatusBadRequest, "ThrottlingException")
)
