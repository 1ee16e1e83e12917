resource "aws_kms_key" "data" {
  count                   = var.kms ? 1 : 0
  description             = "Data of ${var.name}"
  enable_key_rotation     = true
  deletion_window_in_days = 30
  tags                    = var.tags

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "TheAccountDecides"
        Effect    = "Allow"
        Principal = { AWS = "arn:${local.partition}:iam::${local.account}:root" }
        Action    = "kms:*"
        Resource  = "*"
      },
      {
        Sid       = "LogsOfTheFunctions"
        Effect    = "Allow"
        Principal = { Service = "logs.${local.region}.amazonaws.com" }
        Action    = ["kms:Encrypt*", "kms:Decrypt*", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"]
        Resource  = "*"
        Condition = {
          ArnLike = { "kms:EncryptionContext:aws:logs:arn" = "arn:${local.partition}:logs:${local.region}:${local.account}:log-group:/aws/lambda/${var.name}-*" }
        }
      },
    ]
  })
}

resource "aws_kms_alias" "data" {
  count         = var.kms ? 1 : 0
  name          = "alias/${var.name}"
  target_key_id = aws_kms_key.data[0].key_id
}
