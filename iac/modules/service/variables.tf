variable "name" {
  description = "What everything is called: the table, the functions NAME-append, NAME-read, NAME-control and NAME-maintain, and what else there is."
  type        = string
  default     = "tailrace"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,30}[a-z0-9]$", var.name))
    error_message = "Write 3 to 32 lower-case letters, digits and hyphens, the first a letter, the last no hyphen."
  }
}

variable "bucket" {
  description = "The name of the bucket. Left out: NAME, the account and the region, joined by hyphens, which nobody else has."
  type        = string
  default     = null

  validation {
    condition     = var.bucket == null || can(regex("^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$", var.bucket))
    error_message = "Write 3 to 63 lower-case letters, digits and hyphens."
  }
}

variable "packages" {
  description = "The folder with the packages append.zip, read.zip, control.zip and maintain.zip of the chosen architecture, as make package-functions writes them into bin/functions/arm64 and bin/functions/amd64."
  type        = string
  nullable    = false
}

variable "architecture" {
  description = "The processors that the packages are for: arm64, which costs less, or x86_64."
  type        = string
  default     = "arm64"
  nullable    = false

  validation {
    condition     = contains(["arm64", "x86_64"], var.architecture)
    error_message = "Choose arm64 or x86_64."
  }
}

variable "auth" {
  description = "Asks every request for an access token. Without it, whoever can invoke the functions may do everything: leave it out only behind IAM."
  type        = bool
  default     = true
  nullable    = false
}

variable "root_token" {
  description = "The operator's token, which may do everything: 24 or more characters, such as openssl rand -hex 32 prints. Needed with auth. It is in the state and in the functions' environment."
  type        = string
  default     = null
  sensitive   = true

  validation {
    condition     = var.root_token == null || can(regex("^[!-~]{24,}$", var.root_token))
    error_message = "Write 24 or more printable characters without spaces."
  }

  validation {
    condition     = var.auth == (var.root_token != null)
    error_message = "With auth there has to be a root token, without auth none."
  }
}

variable "settings" {
  description = "Settings of the functions, by their names in docs/configuration.md with underscores; what is left out has its default."
  type = object({
    domain           = optional(string)
    location         = optional(string)
    no_cors          = optional(bool)
    trim_delay       = optional(string)
    inflight_bytes   = optional(string)
    cache_bytes      = optional(string)
    eventual_max_age = optional(string)
    eventual_bytes   = optional(string)
    collect_grace    = optional(string)
    log_level        = optional(string)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.settings.log_level == null || contains(["trace", "debug", "info", "warn", "error"], coalesce(var.settings.log_level, "info"))
    error_message = "log_level is trace, debug, info, warn or error."
  }
}

variable "endpoints" {
  description = "Where the functions find S3 and DynamoDB, if not on AWS: for LocalStack."
  type = object({
    s3            = optional(string)
    s3_region     = optional(string)
    s3_addressing = optional(string)
    dynamodb      = optional(string)
  })
  default  = {}
  nullable = false
}

variable "functions" {
  description = "Memory in MB, time-out in seconds, and reserved concurrency of the functions; -1 reserves nothing. Processor time comes with memory."
  type = object({
    append   = optional(object({ memory = optional(number, 512), timeout = optional(number, 30), reserved = optional(number, -1) }), {})
    read     = optional(object({ memory = optional(number, 512), timeout = optional(number, 30), reserved = optional(number, -1) }), {})
    control  = optional(object({ memory = optional(number, 256), timeout = optional(number, 30), reserved = optional(number, -1) }), {})
    maintain = optional(object({ memory = optional(number, 512), timeout = optional(number, 900), reserved = optional(number, 1) }), {})
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for f in values(var.functions) : f.memory >= 128 && f.memory <= 10240 && f.timeout >= 3 && f.timeout <= 900])
    error_message = "Memory is 128 to 10240 MB, a time-out 3 to 900 seconds."
  }
}

variable "maintain_schedule" {
  description = "When maintain runs, as EventBridge writes it."
  type        = string
  default     = "rate(5 minutes)"
  nullable    = false

  validation {
    condition     = can(regex("^(rate|cron)\\(.+\\)$", var.maintain_schedule))
    error_message = "Write rate(...) or cron(...)."
  }
}

variable "function_urls" {
  description = "Gives append, read and control URLs of their own. authorization: AWS_IAM (callers sign), or NONE, which needs auth. streaming: answers are sent while they are made, as event streams need. principals: accounts or roles that may call with AWS_IAM, besides whom their own policies let."
  type = object({
    authorization = optional(string, "AWS_IAM")
    streaming     = optional(bool, true)
    principals    = optional(list(string), [])
  })
  default = null

  validation {
    condition     = var.function_urls == null ? true : contains(["AWS_IAM", "NONE"], var.function_urls.authorization)
    error_message = "authorization is AWS_IAM or NONE."
  }

  validation {
    condition     = var.function_urls == null ? true : var.function_urls.authorization == "AWS_IAM" || (var.auth && length(var.function_urls.principals) == 0)
    error_message = "URLs with the authorization NONE are for everybody: they need auth, and take no principals."
  }
}

variable "kms" {
  description = "Encrypts the bucket, the table, the logs and the functions' environment with a key of its own, instead of keys that AWS holds."
  type        = bool
  default     = false
  nullable    = false
}

variable "vpc" {
  description = "Runs the functions in a network, with gateway endpoints for S3 and DynamoDB in these route tables. Nothing else is reached from there."
  type = object({
    id              = string
    subnet_ids      = list(string)
    route_table_ids = list(string)
  })
  default = null

  validation {
    condition     = var.vpc == null ? true : length(var.vpc.subnet_ids) > 0 && length(var.vpc.route_table_ids) > 0
    error_message = "Name at least one subnet and one route table."
  }
}

variable "log_retention_days" {
  description = "How long logs are kept, in days; one of the periods that CloudWatch knows."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "Choose a period that CloudWatch knows, such as 7, 30, 90 or 365."
  }
}

variable "alarm_topics" {
  description = "ARNs of SNS topics that alarms tell. Without one, alarms are shown and nobody is told."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "keep_data" {
  description = "Refuses to delete the table, or a bucket that has objects. Set it to false, and apply, before taking a deployment with its data down."
  type        = bool
  default     = true
  nullable    = false
}

variable "tags" {
  description = "Tags of everything that has tags."
  type        = map(string)
  default     = {}
  nullable    = false
}
