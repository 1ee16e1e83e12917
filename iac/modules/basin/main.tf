locals {
  # Which function serves what. A stream's name is one segment of a path; the gateway decodes a slash in it before it
  # looks for a route, so that the greedy routes below take such names, by the method alone. The config of a stream with such
  # a name is reached by the functions' URLs only.
  routes = {
    "POST /v1/streams/{stream}/records"     = "append"
    "PUT /v1/streams/{stream}/fence"        = "append"
    "GET /v1/streams/{stream}/records"      = "read"
    "GET /v1/streams/{stream}/records/tail" = "read"
    "GET /v1/streams/{stream}/fence"        = "read"
    "GET /v1/streams/{stream}"              = "control"
    "PUT /v1/streams/{stream}"              = "control"
    "PATCH /v1/streams/{stream}"            = "control"
    "DELETE /v1/streams/{stream}"           = "control"
    "ANY /v1/streams"                       = "control"
    "POST /v1/streams/{proxy+}"             = "append"
    "GET /v1/streams/{proxy+}"              = "read"
    "PUT /v1/streams/{proxy+}"              = "append"
    "ANY /v1/streams/{proxy+}"              = "control"
    "GET /health"                           = "control"
    "GET /ping"                             = "control"
  }

  used = toset(values(local.routes))
}

resource "aws_apigatewayv2_api" "basin" {
  name                         = "${var.name}-${var.basin}"
  description                  = "Tailrace: the basin ${var.basin}"
  protocol_type                = "HTTP"
  disable_execute_api_endpoint = var.domain != null
  tags                         = var.tags
}

resource "aws_apigatewayv2_integration" "function" {
  for_each               = local.used
  api_id                 = aws_apigatewayv2_api.basin.id
  integration_type       = "AWS_PROXY"
  integration_method     = "POST"
  integration_uri        = var.functions[each.key].invoke_arn
  payload_format_version = "2.0"
  timeout_milliseconds   = 30000 # the most; the functions count on 28 s
}

resource "aws_apigatewayv2_route" "route" {
  for_each           = local.routes
  api_id             = aws_apigatewayv2_api.basin.id
  route_key          = each.key
  target             = "integrations/${aws_apigatewayv2_integration.function[each.value].id}"
  authorization_type = var.authorization
}

# The basin is the API's: a stage variable, which callers can neither see nor set, says so to the functions, and they refuse a
# request that names another.
resource "aws_apigatewayv2_stage" "default" {
  api_id          = aws_apigatewayv2_api.basin.id
  name            = "$default"
  auto_deploy     = true
  stage_variables = { tailrace_basin = var.basin }
  tags            = var.tags

  default_route_settings {
    throttling_rate_limit    = var.throttling.rate
    throttling_burst_limit   = var.throttling.burst
    detailed_metrics_enabled = false # billed by the route
  }

  # The route, not the path: names of streams may tell something.
  dynamic "access_log_settings" {
    for_each = aws_cloudwatch_log_group.access

    content {
      destination_arn = access_log_settings.value.arn
      format = jsonencode({
        time              = "$context.requestTimeEpoch"
        request           = "$context.requestId"
        route             = "$context.routeKey"
        status            = "$context.status"
        source            = "$context.identity.sourceIp"
        milliseconds      = "$context.responseLatency"
        integration       = "$context.integrationLatency"
        bytes             = "$context.responseLength"
        integration_error = "$context.integrationErrorMessage"
        error             = "$context.error.message"
      })
    }
  }
}

resource "aws_cloudwatch_log_group" "access" {
  count             = var.log_retention_days > 0 ? 1 : 0
  name              = "/aws/apigateway/${var.name}-${var.basin}"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.log_kms_key_arn
  tags              = var.tags
}

resource "aws_lambda_permission" "api" {
  for_each      = local.used
  statement_id  = "api-${var.basin}"
  action        = "lambda:InvokeFunction"
  function_name = var.functions[each.key].name
  principal     = "apigateway.amazonaws.com"
  source_arn    = "${aws_apigatewayv2_api.basin.execution_arn}/*/*"
}

resource "aws_apigatewayv2_domain_name" "own" {
  count       = var.domain == null ? 0 : 1
  domain_name = var.domain.name
  tags        = var.tags

  domain_name_configuration {
    certificate_arn = var.domain.certificate_arn
    endpoint_type   = "REGIONAL"
    security_policy = "TLS_1_2"
  }
}

resource "aws_apigatewayv2_api_mapping" "own" {
  count       = var.domain == null ? 0 : 1
  api_id      = aws_apigatewayv2_api.basin.id
  domain_name = aws_apigatewayv2_domain_name.own[0].id
  stage       = aws_apigatewayv2_stage.default.id
}
