# The smallest deployment: the functions, and an HTTP API for one basin. From the root of a clone:
#
#   make package-functions
#   terraform -chdir=iac/live/small init
#   TF_VAR_root_token=$(openssl rand -hex 32) terraform -chdir=iac/live/small apply
#
# docs/deploy-aws.md goes on from there.

terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.29.0, < 7.0.0"
    }
  }
}

variable "region" {
  description = "The region to deploy into."
  type        = string
  default     = "us-east-1"
}

variable "basin" {
  description = "The basin that gets an API."
  type        = string
  default     = "my-first-basin"
}

variable "root_token" {
  description = "The operator's token: 24 or more characters, such as openssl rand -hex 32 prints. Keep it."
  type        = string
  sensitive   = true
}

provider "aws" {
  region = var.region

  default_tags {
    tags = { application = "tailrace" }
  }
}

module "service" {
  source     = "../../modules/service"
  packages   = "${path.module}/../../../bin/functions/arm64"
  root_token = var.root_token
}

module "basin" {
  source    = "../../modules/basin"
  basin     = var.basin
  functions = module.service.functions
}

output "next" {
  description = "What to do after the first apply, in this order."
  value       = <<-EOT
    # 1. once, mark the table:
    ${module.service.prepare}
    # 2. make the basin:
    ${replace(module.service.create_basin, "BASIN", var.basin)}
    # 3. append, and read:
    ${module.basin.try}
  EOT
}
