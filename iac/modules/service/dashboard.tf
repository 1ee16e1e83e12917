locals {
  # Title, statistic, and for every function the metric.
  function_widgets = [
    { title = "Invocations", stat = "Sum", metric = "Invocations" },
    { title = "Failed invocations", stat = "Sum", metric = "Errors" },
    { title = "Duration, 99 of 100 below", stat = "p99", metric = "Duration" },
    { title = "At once", stat = "Maximum", metric = "ConcurrentExecutions" },
  ]

  table_widgets = [
    { title = "Write units", metric = "ConsumedWriteCapacityUnits" },
    { title = "Read units", metric = "ConsumedReadCapacityUnits" },
  ]
}

resource "aws_cloudwatch_dashboard" "service" {
  dashboard_name = var.name

  dashboard_body = jsonencode({
    widgets = concat(
      [for i, w in local.function_widgets : {
        type = "metric", x = 12 * (i % 2), y = 6 * floor(i / 2), width = 12, height = 6
        properties = {
          title   = w.title, stat = w.stat, region = local.region, period = 60, view = "timeSeries"
          metrics = [for name in local.names : ["AWS/Lambda", w.metric, "FunctionName", "${var.name}-${name}"]]
        }
      }],
      [for i, w in local.table_widgets : {
        type = "metric", x = 12 * i, y = 12, width = 12, height = 6
        properties = {
          title   = w.title, stat = "Sum", region = local.region, period = 60, view = "timeSeries"
          metrics = [["AWS/DynamoDB", w.metric, "TableName", aws_dynamodb_table.heads.name]]
        }
      }],
    )
  })
}
