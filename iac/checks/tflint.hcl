plugin "terraform" {
  enabled = true
  preset  = "all"
}

# A deployment of one file is easier to read than one of three.
rule "terraform_standard_module_structure" {
  enabled = false
}
