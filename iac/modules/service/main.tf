data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  account   = data.aws_caller_identity.current.account_id
  partition = data.aws_partition.current.partition
  region    = data.aws_region.current.region

  bucket = coalesce(var.bucket, "${var.name}-${local.account}-${local.region}")
  names  = toset(["append", "read", "control", "maintain"])
  http   = toset(["append", "read", "control"]) # those that requests come to
}
