// Command append is the AWS Lambda function of that name; docs/functions.md says what it serves.
package main

import "github.com/tailrace-streams/tailrace/functions/lambda"

func main() { lambda.Main(lambda.Append) }
