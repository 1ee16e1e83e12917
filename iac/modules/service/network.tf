# Gateway endpoints cost nothing, and keep what goes to S3 and DynamoDB off the internet.

resource "aws_vpc_endpoint" "store" {
  for_each          = var.vpc == null ? toset([]) : toset(["s3", "dynamodb"])
  vpc_id            = var.vpc.id
  service_name      = "com.amazonaws.${local.region}.${each.key}"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = var.vpc.route_table_ids
  tags              = merge(var.tags, { Name = "${var.name}-${each.key}" })
}

resource "aws_security_group" "functions" {
  count       = var.vpc == null ? 0 : 1
  name        = "${var.name}-functions"
  description = "Functions of ${var.name}: out to S3 and DynamoDB, nothing in"
  vpc_id      = var.vpc.id
  tags        = var.tags
}

resource "aws_vpc_security_group_egress_rule" "store" {
  for_each          = aws_vpc_endpoint.store
  security_group_id = aws_security_group.functions[0].id
  description       = "to ${each.key}"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
  prefix_list_id    = each.value.prefix_list_id
}
