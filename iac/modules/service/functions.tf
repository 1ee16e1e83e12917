locals {
  # Every variable that a function reads and a deployment decides; a test holds them against the settings.
  environment = { for variable, value in {
    TAILRACE_OBJECTS           = "s3://${aws_s3_bucket.records.id}"
    TAILRACE_HEADS             = "dynamodb://${aws_dynamodb_table.heads.name}"
    TAILRACE_AUTH              = tostring(var.auth)
    TAILRACE_ROOT_TOKEN        = var.root_token
    TAILRACE_INSECURE_NO_AUTH  = tostring(!var.auth)
    TAILRACE_FUNCTION_URL_MODE = try(var.function_urls.streaming, false) ? "response-stream" : "buffered"
    TAILRACE_S3_ENDPOINT       = var.endpoints.s3
    TAILRACE_S3_REGION         = var.endpoints.s3_region
    TAILRACE_S3_ADDRESSING     = var.endpoints.s3_addressing
    TAILRACE_DYNAMODB_ENDPOINT = var.endpoints.dynamodb
    TAILRACE_DOMAIN            = var.settings.domain
    TAILRACE_LOCATION          = coalesce(var.settings.location, local.region)
    TAILRACE_NO_CORS           = try(tostring(var.settings.no_cors), null)
    TAILRACE_TRIM_DELAY        = var.settings.trim_delay
    TAILRACE_INFLIGHT_BYTES    = var.settings.inflight_bytes
    TAILRACE_CACHE_BYTES       = var.settings.cache_bytes
    TAILRACE_EVENTUAL_MAX_AGE  = var.settings.eventual_max_age
    TAILRACE_EVENTUAL_BYTES    = var.settings.eventual_bytes
    TAILRACE_COLLECT_GRACE     = var.settings.collect_grace
    TAILRACE_LOG_LEVEL         = var.settings.log_level
  } : variable => value if value != null }
}

resource "aws_cloudwatch_log_group" "function" {
  for_each          = local.names
  name              = "/aws/lambda/${var.name}-${each.key}"
  retention_in_days = var.log_retention_days
  kms_key_id        = one(aws_kms_key.data[*].arn)
  tags              = var.tags
}

resource "aws_lambda_function" "function" {
  for_each                       = local.names
  function_name                  = "${var.name}-${each.key}"
  description                    = "Tailrace: ${each.key}"
  role                           = aws_iam_role.function[each.key].arn
  runtime                        = "provided.al2023"
  handler                        = "bootstrap"
  architectures                  = [var.architecture]
  filename                       = "${var.packages}/${each.key}.zip"
  source_code_hash               = filebase64sha256("${var.packages}/${each.key}.zip")
  memory_size                    = var.functions[each.key].memory
  timeout                        = var.functions[each.key].timeout
  reserved_concurrent_executions = var.functions[each.key].reserved
  kms_key_arn                    = one(aws_kms_key.data[*].arn)
  tags                           = var.tags

  environment {
    variables = local.environment
  }

  logging_config {
    log_format = "Text" # its lines are JSON already
    log_group  = aws_cloudwatch_log_group.function[each.key].name
  }

  dynamic "vpc_config" {
    for_each = var.vpc[*]

    content {
      subnet_ids         = vpc_config.value.subnet_ids
      security_group_ids = [aws_security_group.functions[0].id]
    }
  }

  # Without its policy a function starts, fails, and is kept failing for as long as the process lives.
  depends_on = [aws_iam_role_policy.function]
}

# A run of maintain that fails is not tried again: the next one is due soon, and does what this one did not.
resource "aws_lambda_function_event_invoke_config" "maintain" {
  function_name                = aws_lambda_function.function["maintain"].function_name
  maximum_retry_attempts       = 0
  maximum_event_age_in_seconds = 60
}

resource "aws_cloudwatch_event_rule" "maintain" {
  name                = "${var.name}-maintain"
  description         = "Retention, trimming, deletion and collection"
  schedule_expression = var.maintain_schedule
  tags                = var.tags
}

resource "aws_cloudwatch_event_target" "maintain" {
  rule = aws_cloudwatch_event_rule.maintain.name
  arn  = aws_lambda_function.function["maintain"].arn
}

resource "aws_lambda_permission" "schedule" {
  statement_id  = "schedule"
  action        = "lambda:InvokeFunction"
  function_name = aws_lambda_function.function["maintain"].function_name
  principal     = "events.amazonaws.com"
  source_arn    = aws_cloudwatch_event_rule.maintain.arn
}
