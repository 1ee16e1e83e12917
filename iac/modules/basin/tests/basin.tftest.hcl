# Runs without an account: terraform -chdir=iac/modules/basin test

mock_provider "aws" {
  mock_resource "aws_apigatewayv2_api" {
    defaults = { api_endpoint = "https://a1b2c3.execute-api.eu-central-1.amazonaws.com", execution_arn = "arn:aws:execute-api:eu-central-1:123456789012:a1b2c3" }
  }
}

variables {
  basin = "my-first-basin"
  functions = {
    append  = { name = "t-append", arn = "arn:aws:lambda:eu-central-1:123456789012:function:t-append", invoke_arn = "arn:invoke/t-append" }
    read    = { name = "t-read", arn = "arn:aws:lambda:eu-central-1:123456789012:function:t-read", invoke_arn = "arn:invoke/t-read" }
    control = { name = "t-control", arn = "arn:aws:lambda:eu-central-1:123456789012:function:t-control", invoke_arn = "arn:invoke/t-control" }
  }
}

run "defaults" {
  assert {
    condition     = aws_apigatewayv2_stage.default.stage_variables == tomap({ tailrace_basin = "my-first-basin" })
    error_message = "The stage says which basin it is."
  }
  assert {
    condition     = alltrue([for i in aws_apigatewayv2_integration.function : i.payload_format_version == "2.0" && i.integration_type == "AWS_PROXY"])
    error_message = "Functions get events of format 2.0."
  }
  assert {
    condition     = aws_apigatewayv2_route.route["POST /v1/streams/{stream}/records"].target == "integrations/${aws_apigatewayv2_integration.function["append"].id}"
    error_message = "Appends go to append."
  }
  assert {
    condition     = !anytrue([for key in keys(aws_apigatewayv2_route.route) : strcontains(key, "/v1/basins") || strcontains(key, "access-tokens") || key == "$default"])
    error_message = "An API of a basin serves streams alone."
  }
  assert {
    condition     = toset([for p in aws_lambda_permission.api : p.function_name]) == toset(["t-append", "t-read", "t-control"]) && alltrue([for p in aws_lambda_permission.api : p.source_arn == "arn:aws:execute-api:eu-central-1:123456789012:a1b2c3/*/*"])
    error_message = "The API, and no other, may invoke the three functions."
  }
  assert {
    condition     = strcontains(output.try, "https://a1b2c3.execute-api.eu-central-1.amazonaws.com/v1/streams/hello/records")
    error_message = "The output says what to try."
  }
}

run "own_name" {
  variables {
    domain             = { name = "streams.example.com", certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/1" }
    log_retention_days = 0
  }

  assert {
    condition     = output.url == "https://streams.example.com" && aws_apigatewayv2_api.basin.disable_execute_api_endpoint && length(aws_cloudwatch_log_group.access) == 0
    error_message = "With a name of its own the API has no other, and no log if none is kept."
  }
}

run "names_are_checked" {
  command = plan

  variables {
    basin         = "Short"
    authorization = "MAYBE"
  }

  expect_failures = [var.basin, var.authorization]
}
