locals {
  table_faults = toset(["ReadThrottleEvents", "WriteThrottleEvents"])
}

resource "aws_cloudwatch_metric_alarm" "errors" {
  for_each            = local.names
  alarm_name          = "${var.name}-${each.key}-errors"
  alarm_description   = "Invocations of ${each.key} fail, which requests that fail do not: see its log."
  namespace           = "AWS/Lambda"
  metric_name         = "Errors"
  dimensions          = { FunctionName = aws_lambda_function.function[each.key].function_name }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 3
  datapoints_to_alarm = 2
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topics
  ok_actions          = var.alarm_topics
  tags                = var.tags
}

# A run of maintain that meets another is throttled by its reserved concurrency, which is as it should be.
resource "aws_cloudwatch_metric_alarm" "throttles" {
  for_each            = local.http
  alarm_name          = "${var.name}-${each.key}-throttles"
  alarm_description   = "Invocations of ${each.key} are refused: the account's or the function's concurrency is used up."
  namespace           = "AWS/Lambda"
  metric_name         = "Throttles"
  dimensions          = { FunctionName = aws_lambda_function.function[each.key].function_name }
  statistic           = "Sum"
  period              = 60
  evaluation_periods  = 5
  datapoints_to_alarm = 3
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topics
  ok_actions          = var.alarm_topics
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "maintain_missing" {
  alarm_name          = "${var.name}-maintain-missing"
  alarm_description   = "maintain has not run for a day: nothing expires, and garbage is kept."
  namespace           = "AWS/Lambda"
  metric_name         = "Invocations"
  dimensions          = { FunctionName = aws_lambda_function.function["maintain"].function_name }
  statistic           = "Sum"
  period              = 3600
  evaluation_periods  = 24
  comparison_operator = "LessThanThreshold"
  threshold           = 1
  treat_missing_data  = "breaching"
  alarm_actions       = var.alarm_topics
  ok_actions          = var.alarm_topics
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "table" {
  for_each            = local.table_faults
  alarm_name          = "${var.name}-table-${each.key}"
  alarm_description   = "DynamoDB refuses requests. One stream takes about 1,000 write units a second; the table grows by doubling."
  namespace           = "AWS/DynamoDB"
  metric_name         = each.key
  dimensions          = { TableName = aws_dynamodb_table.heads.name }
  statistic           = "Sum"
  period              = 60
  evaluation_periods  = 5
  datapoints_to_alarm = 3
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topics
  ok_actions          = var.alarm_topics
  tags                = var.tags
}
