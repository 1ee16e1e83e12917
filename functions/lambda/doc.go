// Package lambda runs the service as AWS Lambda functions: it turns the events of API Gateway, function URLs, load
// balancers, direct invocations, queues and schedules into requests of the one http.Handler, and answers back, within
// what the platform allows. See README.md; docs/functions.md is for users.
package lambda
