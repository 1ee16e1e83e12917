locals {
  url = var.domain == null ? aws_apigatewayv2_api.basin.api_endpoint : "https://${var.domain.name}"
}

output "url" {
  description = "Where the basin's streams are."
  value       = local.url
}

output "domain_target" {
  description = "What the DNS record of the own name points to: an alias of this name in this zone."
  value       = [for d in aws_apigatewayv2_domain_name.own : one(d.domain_name_configuration[*].target_domain_name)]
}

output "try" {
  description = "An append and a read to try, with an access token in TOKEN."
  value       = <<-EOT
    curl -sS ${local.url}/v1/streams/hello/records -H "Authorization: Bearer $TOKEN" -H 'content-type: application/json' -d '{"records":[{"body":"hello, world"}]}'
    curl -sS '${local.url}/v1/streams/hello/records?seq_num=0' -H "Authorization: Bearer $TOKEN"
  EOT
}
