package lambda

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// kind is the front door that an event came through.
type kind string

const (
	gatewayV2   kind = "HTTP API"     // payload format 2.0
	gatewayV1   kind = "REST API"     // payload format 1.0, which HTTP APIs can also send
	functionURL kind = "function URL" // payload format 2.0, too
	balancer    kind = "load balancer"
	direct      kind = "direct invocation"
	queue       kind = "SQS batch"
	schedule    kind = "schedule"
)

// envelope is what tells the kinds apart.
type envelope struct {
	RawPath        *string
	HTTPMethod     *string
	Operation      *string
	RequestContext struct {
		DomainName string
		ELB        *struct{}
	}
	Records []struct{ EventSource string }
	Source  string
	// DetailType is "Scheduled Event" for a rule of EventBridge.
	DetailType string `json:"detail-type"`
}

// ErrEvent refuses an event that is none of those the functions take.
var ErrEvent = errors.New("the event is none that this function takes")

const eventForms = "an HTTP request by API Gateway, a function URL or a load balancer, a direct invocation with an \"operation\", " +
	"an SQS batch, or a schedule of EventBridge; see docs/functions.md"

// kindOf tells what an event is. Errors match ErrEvent.
func kindOf(event []byte) (kind, error) {
	var e envelope
	if err := json.Unmarshal(event, &e); err != nil {
		return "", fmt.Errorf("%w: it is not a JSON object of a known shape (%w); want %s", ErrEvent, err, eventForms)
	}
	switch {
	case e.RawPath != nil && strings.Contains(e.RequestContext.DomainName, ".lambda-url."):
		return functionURL, nil
	case e.RawPath != nil:
		return gatewayV2, nil
	case e.HTTPMethod != nil && e.RequestContext.ELB != nil:
		return balancer, nil
	case e.HTTPMethod != nil:
		return gatewayV1, nil
	case e.Operation != nil:
		return direct, nil
	case len(e.Records) > 0 && e.Records[0].EventSource == "aws:sqs":
		return queue, nil
	case len(e.Records) > 0:
		return "", fmt.Errorf("%w: records of %q; want %s", ErrEvent, e.Records[0].EventSource, eventForms)
	case e.Source == "aws.events", e.Source == "aws.scheduler", e.DetailType == "Scheduled Event":
		return schedule, nil
	}
	return "", fmt.Errorf("%w: want %s", ErrEvent, eventForms)
}
