variable "account" {
  description = "The account to deploy into; in any other, nothing is done."
  type        = string

  validation {
    condition     = can(regex("^[0-9]{12}$", var.account))
    error_message = "An account has 12 digits."
  }
}

variable "region" {
  description = "The region to deploy into."
  type        = string
}

variable "packages" {
  description = "The folder with the packages of one release, for arm64."
  type        = string
  default     = "../../../bin/functions/arm64"
}

variable "root_token" {
  description = "The operator's token: 24 or more characters, such as openssl rand -hex 32 prints."
  type        = string
  sensitive   = true
}

variable "vpc" {
  description = "The network that the functions run in; see the module service."
  type = object({
    id              = string
    subnet_ids      = list(string)
    route_table_ids = list(string)
  })
}

variable "alarm_topics" {
  description = "ARNs of SNS topics that alarms tell: at least one."
  type        = list(string)

  validation {
    condition     = length(var.alarm_topics) > 0
    error_message = "Somebody has to hear the alarms."
  }
}

variable "basins" {
  description = "The basins that get an API each, by name: requests a second, burst, and a name of one's own."
  type = map(object({
    rate   = optional(number, 1000)
    burst  = optional(number, 500)
    domain = optional(object({ name = string, certificate_arn = string }))
  }))
  default = {}
}
