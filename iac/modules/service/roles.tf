# One role for each function, with what it does and no more. The actions on the bucket and the table are those that a
# recorded run has made; a test holds the two equal (iac/checks).

locals {
  # Every function may list the bucket: without that, S3 answers a GET of an object that is gone with 403 and not with 404.
  #
  # By function: on objects, on those that the first process tries the bucket with, on the bucket itself, on the table.
  actions = {
    append = {
      objects = ["s3:GetObject", "s3:PutObject"]
      probe   = []
      bucket  = ["s3:ListBucket"]
      table   = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
    }
    read = {
      objects = ["s3:GetObject"]
      probe   = []
      bucket  = ["s3:ListBucket"]
      table   = ["dynamodb:GetItem", "dynamodb:PutItem"]
    }
    control = {
      objects = ["s3:GetObject", "s3:PutObject"]
      probe   = ["s3:DeleteObject"]
      bucket  = ["s3:ListBucket"]
      table   = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"]
    }
    maintain = {
      objects = ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"]
      probe   = []
      bucket  = ["s3:ListBucket"]
      table   = ["dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"]
    }
  }

  # A key of one's own is used through S3, DynamoDB and Lambda, in the caller's name.
  key_actions = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"]

  # What Lambda does in the function's name to join a network; these actions have no resources to name.
  network_actions = [
    "ec2:AssignPrivateIpAddresses", "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:UnassignPrivateIpAddresses",
  ]

  statements = { for name in local.names : name => concat(
    [
      {
        Sid      = "Objects"
        Effect   = "Allow"
        Action   = local.actions[name].objects
        Resource = ["${aws_s3_bucket.records.arn}/*"]
      },
      {
        Sid      = "Bucket"
        Effect   = "Allow"
        Action   = local.actions[name].bucket
        Resource = [aws_s3_bucket.records.arn]
      },
      {
        Sid      = "Table"
        Effect   = "Allow"
        Action   = local.actions[name].table
        Resource = [aws_dynamodb_table.heads.arn]
      },
      {
        Sid      = "Logs"
        Effect   = "Allow"
        Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
        Resource = ["${aws_cloudwatch_log_group.function[name].arn}:*"]
      },
    ],
    [for actions in [local.actions[name].probe] : {
      Sid      = "Probe"
      Effect   = "Allow"
      Action   = actions
      Resource = ["${aws_s3_bucket.records.arn}/probe/*"]
    } if length(actions) > 0],
    [for key in aws_kms_key.data : {
      Sid      = "Key"
      Effect   = "Allow"
      Action   = local.key_actions
      Resource = [key.arn]
    }],
    [for network in var.vpc[*] : {
      Sid      = "Network"
      Effect   = "Allow"
      Action   = local.network_actions
      Resource = ["*"]
    }],
  ) }
}

resource "aws_iam_role" "function" {
  for_each    = local.names
  name        = "${var.name}-${each.key}-${local.region}"
  description = "What the function ${var.name}-${each.key} may do"
  tags        = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "lambda.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy" "function" {
  for_each = local.names
  name     = "stores"
  role     = aws_iam_role.function[each.key].id
  policy   = jsonencode({ Version = "2012-10-17", Statement = local.statements[each.key] })
}
