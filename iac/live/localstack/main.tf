# The service on LocalStack, by localstack/deploy, which needs Docker. LocalStack without an account's token has no HTTP APIs, so
# that functions are reached by URLs of their own; with a token, set api.

terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.29.0, < 7.0.0"
    }
  }
}

variable "endpoint" {
  description = "Where LocalStack is, as seen from here."
  type        = string
  default     = "http://127.0.0.1:4566"
}

variable "architecture" {
  description = "The processors of this machine: arm64 or x86_64."
  type        = string
  default     = "x86_64"
}

variable "api" {
  description = "Makes an HTTP API for a basin too, which LocalStack has only with an account's token."
  type        = bool
  default     = false
}

provider "aws" {
  region                      = "us-east-1"
  access_key                  = "test"
  secret_key                  = "test"
  s3_use_path_style           = true
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true

  endpoints {
    apigatewayv2 = var.endpoint
    cloudwatch   = var.endpoint
    dynamodb     = var.endpoint
    events       = var.endpoint
    iam          = var.endpoint
    lambda       = var.endpoint
    logs         = var.endpoint
    s3           = var.endpoint
    sts          = var.endpoint
  }
}

module "service" {
  source       = "../../modules/service"
  packages     = "${path.module}/../../../bin/functions/${var.architecture == "arm64" ? "arm64" : "amd64"}"
  architecture = var.architecture
  bucket       = "tailrace-functions"
  name         = "tailrace-functions"
  auth         = false # whoever reaches LocalStack may do everything
  keep_data    = false

  # As seen from the functions, which LocalStack runs in containers of the same network.
  endpoints = {
    s3            = "http://localstack:4566"
    s3_addressing = "path"
    dynamodb      = "http://localstack:4566"
  }

  function_urls = {
    authorization = "AWS_IAM" # which LocalStack does not look at
    streaming     = false
  }
}

module "basin" {
  count     = var.api ? 1 : 0
  source    = "../../modules/basin"
  basin     = "my-first-basin"
  functions = module.service.functions
}

output "urls" {
  description = "The URLs of append, read and control."
  value       = module.service.urls
}

output "basin" {
  description = "The URL of the basin's API, if there is one."
  value       = one(module.basin[*].url)
}
