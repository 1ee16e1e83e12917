output "functions" {
  description = "The functions by name, as the module basin takes them."
  value       = { for name, f in aws_lambda_function.function : name => { name = f.function_name, arn = f.arn, invoke_arn = f.invoke_arn } }
}

output "urls" {
  description = "The URLs of append, read and control, if they have some."
  value       = { for name, u in aws_lambda_function_url.function : name => u.function_url }
}

output "bucket" {
  description = "The bucket that holds records."
  value       = aws_s3_bucket.records.id
}

output "table" {
  description = "The table that holds heads and control records."
  value       = aws_dynamodb_table.heads.name
}

output "role_arns" {
  description = "The functions' roles, for policies of other things."
  value       = { for name, r in aws_iam_role.function : name => r.arn }
}

output "prepare" {
  description = "What to run once after the first apply: it marks the table as ours, which takes it from then on."
  value       = "tailrace admin create-table --heads=dynamodb://${aws_dynamodb_table.heads.name} --aws-region=${local.region}"
}

output "create_basin" {
  description = "How to make a basin, with the operator's token in ROOT_TOKEN; write its name for BASIN."
  value       = <<-EOT
    aws lambda invoke --region ${local.region} --function-name ${aws_lambda_function.function["control"].function_name} --cli-binary-format raw-in-base64-out \
      --payload '{"operation":"request","method":"PUT","path":"/v1/basins/BASIN","access_token":"'"$ROOT_TOKEN"'","body":{"config":{"create_stream_on_append":true}}}' /dev/stdout
  EOT
}
