output "prepare" {
  description = "What to run once after the first apply."
  value       = module.service.prepare
}

output "create_basin" {
  description = "How to make a basin."
  value       = module.service.create_basin
}

output "urls" {
  description = "The URLs of append, read and control, for every basin."
  value       = module.service.urls
}

output "basins" {
  description = "By basin: its URL, where its DNS record points, and what to try."
  value       = { for name, b in module.basin : name => { url = b.url, dns = b.domain_target, try = b.try } }
}
