# Runs without an account: terraform -chdir=iac/modules/service test

mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { region = "eu-central-1" }
  }
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
}

variables {
  packages   = "./tests/packages"
  root_token = "0123456789abcdef0123456789abcdef"
}

run "defaults" {
  assert {
    condition     = output.bucket != "" && aws_s3_bucket.records.bucket == "tailrace-123456789012-eu-central-1" && !aws_s3_bucket.records.force_destroy
    error_message = "The bucket is named by account and region, and kept."
  }
  assert {
    condition = alltrue([
      aws_s3_bucket_public_access_block.records.block_public_acls, aws_s3_bucket_public_access_block.records.block_public_policy,
      aws_s3_bucket_public_access_block.records.ignore_public_acls, aws_s3_bucket_public_access_block.records.restrict_public_buckets,
    ])
    error_message = "Nothing of the bucket is public."
  }
  assert {
    condition     = aws_s3_bucket_versioning.records.versioning_configuration[0].status == "Disabled"
    error_message = "Versions would keep what was deleted."
  }
  assert {
    condition     = aws_dynamodb_table.heads.billing_mode == "PAY_PER_REQUEST" && aws_dynamodb_table.heads.point_in_time_recovery[0].enabled && aws_dynamodb_table.heads.deletion_protection_enabled
    error_message = "The table is billed by request, can be restored, and is protected."
  }
  assert {
    condition     = tomap({ for a in aws_dynamodb_table.heads.attribute : a.name => a.type }) == tomap({ pk = "S", sk = "B" }) && aws_dynamodb_table.heads.hash_key == "pk" && aws_dynamodb_table.heads.range_key == "sk"
    error_message = "The keys are those of the store."
  }
  assert {
    condition     = alltrue([for f in aws_lambda_function.function : f.runtime == "provided.al2023" && f.architectures == tolist(["arm64"])])
    error_message = "Functions run on arm64 and provided.al2023."
  }
  assert {
    condition     = aws_lambda_function.function["maintain"].timeout == 900 && aws_lambda_function.function["maintain"].reserved_concurrent_executions == 1
    error_message = "maintain has 15 minutes, and runs once at a time."
  }
  assert {
    condition     = aws_lambda_function.function["read"].environment[0].variables["TAILRACE_HEADS"] == "dynamodb://tailrace" && aws_lambda_function.function["read"].environment[0].variables["TAILRACE_AUTH"] == "true"
    error_message = "Functions know their table, and ask for tokens."
  }
  assert {
    condition     = !contains(keys(aws_lambda_function.function["read"].environment[0].variables), "TAILRACE_TRIM_DELAY")
    error_message = "What is not set is not there."
  }
  assert {
    condition     = length(aws_lambda_function_url.function) == 0 && length(aws_kms_key.data) == 0 && length(aws_vpc_endpoint.store) == 0
    error_message = "What is optional is left out."
  }
  assert {
    condition     = toset([for s in jsondecode(aws_iam_role_policy.function["read"].policy).Statement : s.Sid]) == toset(["Objects", "Bucket", "Table", "Logs"])
    error_message = "read has no statements beyond its stores and its log."
  }
  assert {
    condition     = aws_cloudwatch_event_target.maintain.arn == aws_lambda_function.function["maintain"].arn
    error_message = "The schedule is for maintain."
  }
}

run "everything" {
  variables {
    kms           = true
    vpc           = { id = "vpc-1", subnet_ids = ["subnet-1"], route_table_ids = ["rtb-1"] }
    function_urls = { authorization = "NONE" }
    settings      = { trim_delay = "1s", no_cors = true }
    keep_data     = false
  }

  assert {
    condition     = length(aws_lambda_function_url.function) == 3 && alltrue([for u in aws_lambda_function_url.function : u.invoke_mode == "RESPONSE_STREAM"])
    error_message = "Three functions have URLs that stream."
  }
  assert {
    condition     = length(aws_lambda_permission.url) == 3 && alltrue([for p in aws_lambda_permission.url : p.action == "lambda:InvokeFunctionUrl" && p.function_url_auth_type == "NONE" && p.principal == "*"])
    error_message = "Everybody may use the URLs."
  }
  assert {
    condition     = length(aws_lambda_permission.url_invoke) == 3 && alltrue([for p in aws_lambda_permission.url_invoke : p.action == "lambda:InvokeFunction" && p.invoked_via_function_url && p.principal == "*"])
    error_message = "Everybody may invoke, by the URL alone."
  }
  assert {
    condition     = aws_lambda_function.function["append"].environment[0].variables["TAILRACE_FUNCTION_URL_MODE"] == "response-stream" && aws_lambda_function.function["append"].environment[0].variables["TAILRACE_NO_CORS"] == "true"
    error_message = "Functions know how their URLs are set up."
  }
  assert {
    condition     = length(aws_vpc_endpoint.store) == 2 && alltrue([for e in aws_vpc_endpoint.store : e.vpc_endpoint_type == "Gateway"])
    error_message = "Both stores have gateway endpoints."
  }
  assert {
    condition     = toset([for s in jsondecode(aws_iam_role_policy.function["maintain"].policy).Statement : s.Sid]) == toset(["Objects", "Table", "Logs", "Bucket", "Key", "Network"])
    error_message = "A key and a network need statements."
  }
  assert {
    condition     = aws_s3_bucket.records.force_destroy && !aws_dynamodb_table.heads.deletion_protection_enabled
    error_message = "Data that need not be kept can be deleted."
  }
}

run "signed_urls" {
  variables {
    function_urls = { principals = ["arn:aws:iam::210987654321:role/client"], streaming = false }
  }

  assert {
    condition     = alltrue([for p in concat(values(aws_lambda_permission.url), values(aws_lambda_permission.url_invoke)) : p.principal == "arn:aws:iam::210987654321:role/client"])
    error_message = "Both permissions are for the principal named."
  }
}

run "open_urls_need_tokens" {
  command = plan

  variables {
    auth          = false
    root_token    = null
    function_urls = { authorization = "NONE" }
  }

  expect_failures = [var.function_urls]
}

run "auth_needs_a_token" {
  command = plan

  variables {
    root_token = null
  }

  expect_failures = [var.root_token]
}

run "names_are_checked" {
  command = plan

  variables {
    name         = "Tailrace"
    architecture = "mips"
  }

  expect_failures = [var.name, var.architecture]
}
