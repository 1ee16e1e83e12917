# What holds everything. The bucket has records, the table the heads of streams and the control records.

resource "aws_s3_bucket" "records" {
  bucket        = local.bucket
  force_destroy = !var.keep_data
  tags          = var.tags
}

resource "aws_s3_bucket_public_access_block" "records" {
  bucket                  = aws_s3_bucket.records.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "records" {
  bucket = aws_s3_bucket.records.id

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "records" {
  bucket = aws_s3_bucket.records.id

  rule {
    bucket_key_enabled = var.kms # one request to KMS for many objects

    apply_server_side_encryption_by_default {
      sse_algorithm     = var.kms ? "aws:kms" : "AES256"
      kms_master_key_id = one(aws_kms_key.data[*].arn)
    }
  }
}

# Objects are never overwritten, and deleted only when nothing can name them again. Versions would keep, and bill, what was
# deleted for good.
resource "aws_s3_bucket_versioning" "records" {
  bucket = aws_s3_bucket.records.id

  versioning_configuration {
    status = "Disabled"
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "records" {
  bucket = aws_s3_bucket.records.id

  rule {
    id     = "unfinished-uploads"
    status = "Enabled"

    filter {}

    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }
}

resource "aws_s3_bucket_policy" "records" {
  bucket     = aws_s3_bucket.records.id
  depends_on = [aws_s3_bucket_public_access_block.records]

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "OnlyEncryptedConnections"
      Effect    = "Deny"
      Principal = "*"
      Action    = "s3:*"
      Resource  = [aws_s3_bucket.records.arn, "${aws_s3_bucket.records.arn}/*"]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
  })
}

# The keys are those that tailrace admin create-table makes, which then takes this table and writes its mark into it.
resource "aws_dynamodb_table" "heads" {
  name                        = var.name
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "pk"
  range_key                   = "sk"
  deletion_protection_enabled = var.keep_data
  tags                        = var.tags

  attribute {
    name = "pk"
    type = "S"
  }

  attribute {
    name = "sk"
    type = "B"
  }

  point_in_time_recovery {
    enabled = true
  }

  server_side_encryption {
    enabled     = var.kms
    kms_key_arn = one(aws_kms_key.data[*].arn)
  }
}
