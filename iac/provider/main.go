// Command provider stands in for hashicorp/aws where that cannot be had or is not wanted: it serves the real provider's
// schema, so that terraform validate and terraform test find misspelt names and wrong types, and it makes nothing. See
// README.md.
package main

import (
	"fmt"
	"os"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
)

func main() {
	server, err := newServer()
	if err == nil {
		err = tf6server.Serve("registry.terraform.io/hashicorp/aws", func() tfprotov6.ProviderServer { return server })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "provider:", err)
		os.Exit(1)
	}
}
