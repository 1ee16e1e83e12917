# A deployment to start a serious one from: state in a bucket, a key of its own, a network, alarms that somebody hears, URLs
# that stream, and a basin under a name of one's own. Copy it; every value below is yours to change.

terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.29.0, < 7.0.0"
    }
  }

  # Given at init: terraform init -backend-config=bucket=… -backend-config=key=tailrace.tfstate -backend-config=region=…
  # The state has the root token in it: let nobody read that bucket who may not be the operator.
  backend "s3" {
    encrypt      = true
    use_lockfile = true
  }
}

provider "aws" {
  region              = var.region
  allowed_account_ids = [var.account]

  default_tags {
    tags = { application = "tailrace", environment = "production" }
  }
}

module "service" {
  source             = "../../modules/service"
  name               = "tailrace-prod"
  packages           = var.packages
  root_token         = var.root_token
  kms                = true
  vpc                = var.vpc
  alarm_topics       = var.alarm_topics
  log_retention_days = 90
  maintain_schedule  = "rate(2 minutes)"

  settings = {
    cache_bytes   = "64MiB"
    collect_grace = "10m"
  }

  functions = {
    append = { memory = 1024, timeout = 30 }
    read   = { memory = 1024, timeout = 300 } # event streams end with the function's time
  }

  function_urls = {
    authorization = "NONE" # access tokens decide
    streaming     = true
  }
}

module "basin" {
  for_each   = var.basins
  source     = "../../modules/basin"
  name       = "tailrace-prod"
  basin      = each.key
  functions  = module.service.functions
  domain     = each.value.domain
  throttling = { rate = each.value.rate, burst = each.value.burst }
}
