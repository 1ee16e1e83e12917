// Package checks holds what iac is checked by, besides Terraform's own tests: it has nothing but tests. See ../README.md.
package checks
