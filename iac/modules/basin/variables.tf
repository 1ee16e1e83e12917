variable "name" {
  description = "What the API is called; with the basin's name appended it names the log group."
  type        = string
  default     = "tailrace"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,30}[a-z0-9]$", var.name))
    error_message = "Write 3 to 32 lower-case letters, digits and hyphens, the first a letter, the last no hyphen."
  }
}

variable "basin" {
  description = "The basin that this API serves, and no other; it need not exist yet."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{6,46}[a-z0-9]$", var.basin))
    error_message = "The name of a basin has 8 to 48 lower-case letters, digits and hyphens, and no hyphen at either end."
  }
}

variable "functions" {
  description = "The functions, as the output functions of the module service has them."
  type        = map(object({ name = string, arn = string, invoke_arn = string }))
  nullable    = false

  validation {
    condition     = alltrue([for name in ["append", "read", "control"] : contains(keys(var.functions), name)])
    error_message = "append, read and control are needed."
  }
}

variable "authorization" {
  description = "Who may call before any access token is looked at: NONE (everybody, so that the service's own auth decides) or AWS_IAM (callers sign)."
  type        = string
  default     = "NONE"
  nullable    = false

  validation {
    condition     = contains(["NONE", "AWS_IAM"], var.authorization)
    error_message = "Choose NONE or AWS_IAM."
  }
}

variable "throttling" {
  description = "Requests a second that the API lets through, and how many at once above that. Beyond, it answers 429 by itself."
  type        = object({ rate = optional(number, 1000), burst = optional(number, 500) })
  default     = {}
  nullable    = false

  validation {
    condition     = var.throttling.rate > 0 && var.throttling.burst > 0
    error_message = "Both are above 0."
  }
}

variable "domain" {
  description = "A name of one's own for the API, with the ARN of a certificate for it in the same region. Its DNS record is the caller's: see the output domain_target."
  type        = object({ name = string, certificate_arn = string })
  default     = null

  validation {
    condition     = var.domain == null ? true : can(regex("^[a-z0-9.-]+\\.[a-z]{2,}$", var.domain.name)) && startswith(var.domain.certificate_arn, "arn:")
    error_message = "Write a name such as streams.example.com, and the ARN of a certificate."
  }
}

variable "log_retention_days" {
  description = "How long access logs are kept, in days; 0 keeps none and makes none."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = contains([0, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "Choose 0, or a period that CloudWatch knows, such as 7, 30, 90 or 365."
  }
}

variable "log_kms_key_arn" {
  description = "A key to encrypt access logs with, whose policy lets CloudWatch Logs use it."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of everything that has tags."
  type        = map(string)
  default     = {}
  nullable    = false
}
