// Command nothing is a function that does nothing: what the platform and the runtime take by themselves, beside which the
// functions are measured (make bench-functions).
package main

import (
	"context"
	"encoding/json"

	"github.com/aws/aws-lambda-go/lambda"
)

func main() {
	lambda.Start(func(context.Context, json.RawMessage) (json.RawMessage, error) { return json.RawMessage(`{}`), nil })
}
